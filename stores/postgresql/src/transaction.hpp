#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "connection.hpp"
#include "connection_pool.hpp"
#include "sql_error.hpp"

namespace oncebox::postgresql {

/// A transaction on one connection, at READ COMMITTED: each statement sees what was committed
/// before it began. It is begun together with the first commands and rolled back when it is
/// destroyed uncommitted.
class Transaction {
 public:
  Transaction(Connection& connection, Deadline deadline);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Result run(const Statement& statement, const Parameters& parameters);
  std::vector<Result> run_all(std::span<const Command> commands);

  /// Commits, together with the last commands. Their results are those of the commands.
  std::vector<Result> commit(std::span<const Command> last = {});

 private:
  [[nodiscard]] std::vector<Command> begun(std::span<const Command> commands);

  Connection& connection_;
  const Deadline deadline_;
  bool is_open_ = false;
};

/// How often a transaction that lost against another is repeated before the caller is told.
inline constexpr int kMaxRepetitions = 20;

/// Waits a little, longer each time and never the same for two callers, so that they do not meet
/// again.
void wait_before_repetition(int repetition);

/// Answers `work()`, which is one transaction, and repeats it when it lost against another.
template <class Work>
auto repeating(Work work) {
  for (int repetition = 1;; ++repetition) {
    try {
      return work();
    } catch (const LostAgainstAnother&) {
      if (repetition == kMaxRepetitions) throw;
    }
    wait_before_repetition(repetition);
  }
}

/// Runs `work(transaction)`, which commits it.
template <class Work>
auto in_transaction(ConnectionPool& pool, Deadline deadline, Work work) {
  return repeating([&] {
    const ConnectionPool::Lease connection = pool.acquire(deadline);
    Transaction transaction(*connection, deadline);
    return work(transaction);
  });
}
template <class Work>
auto in_transaction(ConnectionPool& pool, Work work) {
  return in_transaction(pool, pool.deadline(), std::move(work));
}

/// Runs one statement that is a transaction by itself.
Result run_alone(ConnectionPool& pool, const Statement& statement, const Parameters& parameters,
                 Exchange exchange, Deadline deadline);
Result run_alone(ConnectionPool& pool, const Statement& statement, const Parameters& parameters,
                 Exchange exchange);

}  // namespace oncebox::postgresql
