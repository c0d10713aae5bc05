#pragma once

#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "connection.hpp"
#include "connection_pool.hpp"
#include "oncebox/transaction.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

/// A transaction on a connection of the store, in which a handler works. Rolled back when it is
/// destroyed uncommitted.
class HandlerTransaction final : public oncebox::Transaction {
 public:
  /// Takes messages into a queue of the store, in the transaction given.
  using Enqueue = std::function<std::vector<EnqueueOutcome>(
      QueueKind queue, std::span<const Message> messages, const EnqueueOptions& options,
      postgresql::Transaction& transaction)>;

  /// Both are borrowed.
  HandlerTransaction(Connection& connection, const ConnectionPool& pool, Enqueue enqueue);

  /// Begins, and runs `work` with the connection lent to it.
  void run(const TransactionalQueue::Work& work);

  /// For the store's own statements, after that.
  [[nodiscard]] postgresql::Transaction& own();
  /// Throws `conflict` when what the handler wrote is refused now: by a constraint that is checked
  /// at the commit.
  void commit();

  /// While it is lent.
  [[nodiscard]] pg_conn* connection() const noexcept { return lent_; }

 private:
  std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                         const EnqueueOptions& options) override;
  void take_back();

  Connection& connection_;
  const ConnectionPool& pool_;
  const Enqueue enqueue_;
  postgresql::Transaction own_;
  pg_conn* lent_ = nullptr;
  std::exception_ptr ended_by_;  ///< what made the connection useless while the handler ran
};

}  // namespace oncebox::postgresql
