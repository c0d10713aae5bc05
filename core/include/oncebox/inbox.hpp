#pragma once

#include <concepts>
#include <cstddef>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/detail/intake.hpp"
#include "oncebox/detail/typed_message.hpp"
#include "oncebox/group_commit.hpp"
#include "oncebox/message.hpp"
#include "oncebox/payload_codec.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/store.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {

struct InboxOptions {
  std::string name = "inbox";  ///< which inbox this is, in every log line
  EnqueueOptions enqueue = {};
  /// Turn it off where senders change what they sent under an id, or hash in a way of their own
  /// under the name "sha256" and only sometimes tell.
  MissingHash missing_hash = MissingHash::sha256_of_payload;
  /// With more than one committer messages of one partition may be stored in another order than
  /// that of the calls that do not wait.
  GroupCommitOptions group_commit = {};
};

/// Takes messages in from webhooks, brokers and other services, and recognises what was seen
/// before. What is accepted is deduplicated by its key; a worker may still meet it more than once.
///
/// **Threads.** Every call but the destructor may be made from any thread at any time.
///
/// **Transactions.** Messages that are enqueued singly by many callers share commits; each has an
/// answer of its own, and one that cannot be stored fails alone. Every other call is a transaction
/// of its own. When a call throws, nothing has changed, unless the code is `outcome_unknown`: then
/// repeating it is safe. In a transactional handler of a SQLite store messages are enqueued with
/// its transaction; without it they throw `conflict`, as they could be stored only after it.
///
/// **Limits.** Calls that wait take a deadline and a stop token (`CallOptions`). A message that is
/// not being stored yet at its limit is withdrawn; of one that is, the outcome is unknown. Calls
/// with a transaction take the time of the transaction.
///
/// **Bad input.** A message with a due time or expiry outside the years 1970 to 9999 throws
/// `out_of_range`, one above the store's payload limit `invalid_argument`.
class Inbox {
 public:
  using EnqueueResult = CommitResult<EnqueueOutcome>;

  /// Everything is borrowed and must outlive the inbox. Throws `out_of_range` as `GroupCommit`
  /// does.
  explicit Inbox(QueueStore& store, const InboxOptions& options = {},
                 const Surroundings& surroundings = {});
  /// The inbox of a store. Knows the store's payload limit, and refuses what is above it before it
  /// reaches the store.
  explicit Inbox(Store& store, const InboxOptions& options = {},
                 const Surroundings& surroundings = {});

  /// Stops, as `stop` does.
  ~Inbox() = default;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // For those who handle messages themselves -----------------------------------------------------

  /// Whether the message is done. Records that it was seen: a new key is stored as seen, of a
  /// known one last_seen changes. A hash is stored where there was none; another one than before
  /// is logged as a warning and changes nothing.
  bool already_processed(const MessageKey& key, const std::optional<ContentHash>& hash = {},
                         const CallOptions& call = {});

  /// The same, and answers all that was known of the key.
  ObserveOutcome observe(const MessageKey& key, const std::optional<ContentHash>& hash = {},
                         const CallOptions& call = {});

  /// Set the state, end any lease, and answer true when the message is now, or was already, in
  /// that state. False means that nothing changed: the key is unknown, or the state is final; done
  /// stays done, and processing does not bring back the dead. `mark` tells which.
  bool mark_processing(const MessageKey& key, const CallOptions& call = {});
  bool mark_processed(const MessageKey& key, const CallOptions& call = {});
  bool mark_dead(const MessageKey& key, std::string error = {}, const CallOptions& call = {});
  MarkOutcome mark(const Mark& mark, const CallOptions& call = {});

  // For those who leave it to workers ------------------------------------------------------------

  // Single messages throw `overloaded` at once when too many wait already, and `unavailable` after
  // `stop`. Messages are stored in the order of the calls, also of those that do not wait; calls of
  // different threads at one time in any.

  /// Takes a message in and waits until that is durable.
  EnqueueOutcome enqueue(Message message, const CallOptions& call = {});

  /// The same without waiting; the future gets the outcome or the error. Bad input is thrown here.
  [[nodiscard]] std::future<EnqueueOutcome> enqueue_future(Message message);

  /// The same without waiting. `callback(EnqueueResult)` runs on the thread that commits, must not
  /// block, and should be noexcept: what it throws is dropped. Bad input is thrown here, and then
  /// the callback is not called.
  template <std::invocable<EnqueueResult> Callback>
  void enqueue_then(Message message, Callback callback) {
    intake_.enqueue_then(std::move(message), std::move(callback));
  }

  /// Takes in messages that came together but do not depend on each other: each is answered on its
  /// own, also for bad input and limits. Throws `overloaded` or `unavailable` for all of them, and
  /// `out_of_range` when they are more than `group_commit.max_queued`.
  std::vector<EnqueueResult> enqueue_each(std::vector<Message> messages,
                                          const CallOptions& call = {});

  /// Takes in all of them or, when it throws, none: one transaction.
  std::vector<EnqueueOutcome> enqueue(std::vector<Message> messages, const CallOptions& call = {});

  /// Takes in one or several with the commit of somebody's transaction, which must be one of this
  /// inbox's store. What it answers, and what the log tells, holds only if that commits.
  EnqueueOutcome enqueue(Message message, Transaction& transaction);
  std::vector<EnqueueOutcome> enqueue(std::vector<Message> messages, Transaction& transaction);

  // Typed: the value becomes the payload through `PayloadCodec<T>`, and the message says the rest:
  //
  //     inbox.enqueue(OrderPaid{42}, {.key = {"shop", "42"}, .topic = "order.paid"});
  //
  // A message that has a payload besides throws `invalid_argument`. What the codec throws goes on
  // to the caller, and nothing is stored.

  template <EncodablePayload T>
  EnqueueOutcome enqueue(const T& value, Message message, const CallOptions& call = {}) {
    return enqueue(detail::carrying(value, std::move(message)), call);
  }
  template <EncodablePayload T>
  EnqueueOutcome enqueue(const T& value, Message message, Transaction& transaction) {
    return enqueue(detail::carrying(value, std::move(message)), transaction);
  }
  template <EncodablePayload T>
  [[nodiscard]] std::future<EnqueueOutcome> enqueue_future(const T& value, Message message) {
    return enqueue_future(detail::carrying(value, std::move(message)));
  }

  /// Refuses further single messages, stores and answers those that wait, and returns then. Must
  /// not be called by a callback.
  void stop() { intake_.stop(); }

  /// The queue below, with the same log lines and observer: for workers.
  [[nodiscard]] QueueStore& queue() noexcept { return intake_.queue(); }

 private:
  Inbox(QueueStore& store, const InboxOptions& options, const Surroundings& surroundings,
        std::size_t max_payload_bytes);

  detail::Intake intake_;
};

}  // namespace oncebox
