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
  /// One that the caller has begun, and ends.
  static Transaction joined(Connection& connection, Deadline deadline);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Result run(const Statement& statement, const Parameters& parameters);
  std::vector<Result> run_all(std::span<const Command> commands);

  /// Looks at what a statement answers, and throws if it must not be so.
  using Check = void (*)(const Result& result);
  /// Sends a statement without parameters ahead of the next commands, in the same exchange. With a
  /// check nothing is committed before it has passed.
  void before_next(const Statement& statement, Check check = nullptr);
  /// When the next exchange gives up.
  void renew(Deadline deadline) noexcept { deadline_ = deadline; }

  /// Commits, together with the last commands. Their results are those of the commands.
  std::vector<Result> commit(std::span<const Command> last = {});

 private:
  struct Preceding {
    Command command;
    Check check = nullptr;
  };

  /// Sends the commands with what is to be sent before them.
  std::vector<Result> exchange(std::span<const Command> commands, Exchange exchange);

  enum class Begun { by_us, by_somebody_else };
  Transaction(Connection& connection, Deadline deadline, Begun begun);

  Connection& connection_;
  Deadline deadline_;
  const Begun begun_;
  std::vector<Preceding> before_next_;
  bool is_open_;
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
