#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"

namespace oncebox {

/// The queues of a store. In `deliveries` stands one message for each endpoint that a message of
/// the outbox goes to; its topic is the name of the endpoint.
enum class QueueKind { inbox, outbox, deliveries };

/// Every value, in order.
inline constexpr QueueKind kQueueKinds[] = {QueueKind::inbox, QueueKind::outbox,
                                            QueueKind::deliveries};

[[nodiscard]] std::string_view to_string(QueueKind queue) noexcept;
/// The queue that this word means, if any.
[[nodiscard]] std::optional<QueueKind> queue_kind(std::string_view word) noexcept;

/// A database transaction in which messages are enqueued together with somebody's own changes: they
/// are there for others when it commits, and never were when it is rolled back. A backend's header
/// tells how to get at its connection (`sqlite::database_of`, `postgresql::connection_of`), and how
/// to join a transaction that the caller has begun himself (`sqlite::JoinedTransaction`,
/// `postgresql::JoinedTransaction`).
///
/// Used by one thread at a time, and only while the transaction is open. When a call throws it has
/// changed nothing, and the transaction can go on; but after a failure of the database, such as
/// `unavailable`, `timeout` or `overloaded`, all that can be done is to roll it back.
class Transaction {
 public:
  virtual ~Transaction() = default;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// As `QueueStore::enqueue`, but with the commit of this transaction.
  std::vector<EnqueueOutcome> enqueue(QueueKind queue, std::span<const Message> messages,
                                      const EnqueueOptions& options = {});
  EnqueueOutcome enqueue(QueueKind queue, const Message& message,
                         const EnqueueOptions& options = {});

 protected:
  Transaction() = default;

 private:
  virtual std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                                 const EnqueueOptions& options) = 0;
};

/// A queue whose store commits somebody's changes together with the end of a delivery.
class TransactionalQueue {
 public:
  using Work = std::function<void(Transaction& transaction)>;

  virtual ~TransactionalQueue() = default;
  TransactionalQueue(const TransactionalQueue&) = delete;
  TransactionalQueue& operator=(const TransactionalQueue&) = delete;

  /// Runs `work` in a transaction, acknowledges the delivery in it, and commits. `settled` means
  /// that all of it has happened. With any other outcome, and when it throws, none of it has, and
  /// the delivery is as it was; also after `superseded`: what was done with older content has no
  /// effect. Throws what `work` throws. After `outcome_unknown` the delivery is to be released:
  /// that has an effect only if nothing was committed.
  ///
  /// `work` may run a second time, after everything it did there was undone, and on another thread
  /// than the caller's; it must not call the store but through the transaction.
  virtual SettleOutcome acknowledge_with(const Delivery& delivery, const Work& work) = 0;

 protected:
  TransactionalQueue() = default;
};

}  // namespace oncebox
