#pragma once

#include <functional>
#include <span>
#include <vector>

#include "connection.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::sqlite {

/// A transaction of the store's own writer, as a handler sees it. Used on the writer's thread.
class StoreTransaction final : public Transaction {
 public:
  /// Takes messages into a queue of the store, in the transaction that is open.
  using Enqueue = std::function<std::vector<EnqueueOutcome>(
      QueueKind queue, std::span<const Message> messages, const EnqueueOptions& options)>;

  StoreTransaction(Connection& connection, Enqueue enqueue)
      : connection_(connection), enqueue_(std::move(enqueue)) {}

  [[nodiscard]] sqlite3* database() const noexcept { return connection_.handle(); }

 private:
  std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                         const EnqueueOptions& options) override {
    return enqueue_(queue, messages, options);
  }

  Connection& connection_;
  const Enqueue enqueue_;
};

}  // namespace oncebox::sqlite
