#pragma once

#include <cstddef>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/causation.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/detail/intake.hpp"
#include "oncebox/detail/typed_message.hpp"
#include "oncebox/group_commit_options.hpp"
#include "oncebox/message.hpp"
#include "oncebox/payload_codec.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/store.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {

/// What is to be sent once it is certain that it should be.
struct OutboxMessage {
  Topic topic;
  Payload payload = {};
  /// Under which the receiver recognises it when it comes again. Nothing: a new UUIDv7. A handler
  /// that may run again gives `derived_id(context, …)`, so that it does not send twice.
  std::optional<MessageId> id = {};
  /// Its own. Those of another message go through `forwarded` first, or this one is taken for it.
  Headers headers = {};
  /// Messages of one key are published in the order in which they were enqueued.
  std::optional<PartitionKey> partition_key = {};
  Priority priority = {};
  std::optional<TimePoint> due_at = {};      ///< not published before
  std::optional<TimePoint> expires_at = {};  ///< not published from then on: dead, "expired"
};

struct OutboxOptions {
  std::string name = "outbox";  ///< which outbox this is, in every log line
  /// Who sends: with the id it is the key of the message, here and at every receiver.
  Source source = "outbox";
  EnqueueOptions enqueue = {};
  MissingHash missing_hash = MissingHash::sha256_of_payload;
  GroupCommitOptions group_commit = {};
};

/// What became of a message that was put into the outbox.
struct OutboxReceipt {
  MessageId id;
  EnqueueOutcome outcome = {};

  friend bool operator==(const OutboxReceipt&, const OutboxReceipt&) = default;
};

/// Throws `PermanentFailure` when one of them was rejected or quarantined, because the outbox knows
/// other content under its id: it will not be sent. For who must not go on then.
void require_taken(std::span<const OutboxReceipt> receipts);

/// What is known of a message of the outbox.
struct OutboxRecord {
  MessageId id;
  Status status = Status::processing;  ///< done: dispatched
  /// Since it was enqueued or last revived: those that failed, and the one that ended it. Not those
  /// that nobody saw the end of, because a process died.
  int attempts = 0;
  TimePoint created_at{};
  std::optional<TimePoint> dispatched_at = {};  ///< when its acceptance was recorded
  std::optional<std::string> last_error = {};   ///< of the last attempt that failed

  friend bool operator==(const OutboxRecord&, const OutboxRecord&) = default;
};

/// Keeps messages until an `OutboxDispatcher` has published them. They are queued as those of an
/// `Inbox` are, by the same code: an id that is known is not queued again.
///
///     Outbox outbox(store, {.source = "shop"});
///     outbox.enqueue({.topic = "order.paid", .payload = "…"});               // durable by itself
///     outbox.enqueue({.topic = "order.paid", .payload = "…"}, transaction);  // with your own rows
///
/// Stamps the headers `messageId` and `timestamp`, and `partitionKey` when there is one, unless the
/// sender has set them. With a `cause`, the message that is being handled, the headers of
/// `caused_by` as well.
///
/// Threads, transactions, limits and bad input are as with `Inbox`; too many headers throw
/// `invalid_argument`.
class Outbox {
 public:
  /// Everything is borrowed and must outlive the outbox. Throws `out_of_range` as `GroupCommit`
  /// does.
  explicit Outbox(QueueStore& store, const OutboxOptions& options = {},
                  const Surroundings& surroundings = {});
  /// The outbox of a store. Refuses what is above the store's payload limit.
  explicit Outbox(Store& store, const OutboxOptions& options = {},
                  const Surroundings& surroundings = {});

  /// Stops, as `stop` does.
  ~Outbox() = default;
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  /// Waits until the message is durable. Those of many callers share commits. Throws `overloaded`
  /// at once when too many wait already, and `unavailable` after `stop`.
  OutboxReceipt enqueue(OutboxMessage message, const Cause& cause = {},
                        const CallOptions& call = {});

  /// The same without waiting; the future gets the receipt or the error. Bad input is thrown here.
  [[nodiscard]] std::future<OutboxReceipt> enqueue_future(OutboxMessage message,
                                                          const Cause& cause = {});

  /// All of them or, when it throws, none: one transaction.
  std::vector<OutboxReceipt> enqueue_all(std::vector<OutboxMessage> messages,
                                         const Cause& cause = {}, const CallOptions& call = {});

  /// With the commit of somebody's transaction, which must be one of this outbox's store: they are
  /// published when it has committed, and never were when it is rolled back. What is answered, and
  /// what the log tells, holds only if it commits.
  OutboxReceipt enqueue(OutboxMessage message, Transaction& transaction, const Cause& cause = {});
  std::vector<OutboxReceipt> enqueue_all(std::vector<OutboxMessage> messages,
                                         Transaction& transaction, const Cause& cause = {});

  // Typed, as with `Inbox`: the value becomes the payload through `PayloadCodec<T>`.
  //
  //     outbox.enqueue(OrderPaid{42}, {.topic = "order.paid"}, transaction, context);

  template <EncodablePayload T>
  OutboxReceipt enqueue(const T& value, OutboxMessage message, const Cause& cause = {},
                        const CallOptions& call = {}) {
    return enqueue(detail::carrying(value, std::move(message)), cause, call);
  }
  template <EncodablePayload T>
  OutboxReceipt enqueue(const T& value, OutboxMessage message, Transaction& transaction,
                        const Cause& cause = {}) {
    return enqueue(detail::carrying(value, std::move(message)), transaction, cause);
  }
  template <EncodablePayload T>
  [[nodiscard]] std::future<OutboxReceipt> enqueue_future(const T& value, OutboxMessage message,
                                                          const Cause& cause = {}) {
    return enqueue_future(detail::carrying(value, std::move(message)), cause);
  }

  /// Nothing when there is no such message of this source, or no longer.
  [[nodiscard]] std::optional<OutboxRecord> find(const MessageId& id, const CallOptions& call = {});

  /// Refuses further single messages, stores and answers those that wait, and returns then.
  void stop() { intake_.stop(); }

  /// The queue below, with the same log lines and observer: for dispatchers.
  [[nodiscard]] QueueStore& queue() noexcept { return intake_.queue(); }

 private:
  Outbox(QueueStore& store, const OutboxOptions& options, const Surroundings& surroundings,
         std::size_t max_payload_bytes);

  [[nodiscard]] Message stamped(OutboxMessage message, const Cause& cause) const;
  [[nodiscard]] std::vector<Message> stamped(std::vector<OutboxMessage> messages,
                                             const Cause& cause) const;

  const Source source_;
  const Clock& clock_;
  detail::Intake intake_;
};

}  // namespace oncebox
