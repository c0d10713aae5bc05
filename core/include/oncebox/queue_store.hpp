#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/driver/claim_offer.hpp"
#include "oncebox/driver/work_listener.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {

/// A durable, deduplicating work queue. The inbox is one; the outbox is another.
///
/// **Threads.** Every call may be made from any thread at any time, also from several processes on
/// the same backend. Calls block; none holds a lock while it waits for the caller.
///
/// **Atomicity.** A call is one transaction, but for a claim (below). The items of a batch take
/// effect as if one by one, in order, and the answer has one outcome for each, in the same order.
/// When a call throws, nothing has changed, unless the code is `outcome_unknown`: then repeating
/// the same call is safe. An empty batch is a no-op.
///
/// A claim may be several transactions, one after the other. On PostgreSQL it first reaps a long
/// backlog in steps, and looks again when other claims were faster to take what it saw. Every store
/// reaps a backlog of more than a thousand messages in steps. When a later transaction fails, the
/// claim answers what the ones before have handed out and reaped. So an answer without messages
/// that tells of reaped ones does not mean that there are no others.
///
/// **Time.** The store's clock decides (a server database's own). A lease, due time or expiry that
/// lies exactly at "now" has been reached.
///
/// **Bad input.** Names are valid by type. Numbers, durations and times outside their limits throw
/// `out_of_range`, a payload above the store's limit `invalid_argument`; both before anything
/// changes.
///
/// **Limits.** A call takes a deadline and a stop token (`CallOptions`). Those that take none never
/// wait.
///
/// A store implements the private `do_` calls. Their arguments are validated and batches are not
/// empty.
class QueueStore {
 public:
  virtual ~QueueStore() = default;
  QueueStore(const QueueStore&) = delete;
  QueueStore& operator=(const QueueStore&) = delete;

  /// Takes messages in, durably. A key that is known is not queued again:
  ///
  /// - seen, or in processing without content: the message is `accepted`.
  ///
  /// - in processing: topic, priority, due time and expiry take the new values, null included. A
  ///   new due time never shortens a backoff. Payload, headers and hash are replaced when they
  ///   differ, where equal hashes mean equal content, and without comparable hashes equal payloads
  ///   do. When topic or content changed, the content version grows. Attempts are never touched.
  ///
  /// - done: nothing changes but last_seen and duplicates.
  ///
  /// - dead: content is updated as above; it stays dead unless `options.on_dead` says otherwise.
  ///
  /// Throws `overloaded` when the store's bounds are reached.
  std::vector<EnqueueOutcome> enqueue(std::span<const Message> messages,
                                      const EnqueueOptions& options = {},
                                      const CallOptions& call = {});
  EnqueueOutcome enqueue(const Message& message, const EnqueueOptions& options = {},
                         const CallOptions& call = {});

  /// Records that these keys were seen and tells what was known of them before. A new key is stored
  /// as seen; of a known one only last_seen changes, and a hash is stored where there was none.
  std::vector<ObserveOutcome> observe(std::span<const Observation> observations,
                                      const CallOptions& call = {});
  ObserveOutcome observe(const Observation& observation, const CallOptions& call = {});

  /// Sets the state directly, for those who handle messages without claiming them. Ends any lease.
  /// Marking as processing a message that was never enqueued leaves it unclaimable.
  std::vector<MarkOutcome> mark(std::span<const Mark> marks, const CallOptions& call = {});
  MarkOutcome mark(const Mark& mark, const CallOptions& call = {});

  /// Hands out up to `limit` messages, whole, each to this owner alone until its lease ends. Order:
  /// higher priority, then the time at which it became claimable, then enqueue order. Of each
  /// partition key only the oldest unfinished message can be claimed, and only while none of that
  /// key is leased.
  ///
  /// The answer is as if `reap` had run just before: lapsed leases are taken over, and messages
  /// that expired or were delivered too often go dead instead. It tells of both.
  [[nodiscard]] ClaimResult claim(const ClaimRequest& request, const CallOptions& call = {});

  /// Ends deliveries, each by its own verdict. A lapsed lease can still be settled until somebody
  /// reaps it or claims the message again. Losing a lease is an outcome, never an exception.
  std::vector<SettleOutcome> settle(std::span<const Settlement> settlements,
                                    const CallOptions& call = {});
  SettleOutcome settle(const Settlement& settlement, const CallOptions& call = {});

  /// Prolongs leases, also lapsed ones that nobody has reaped or claimed since.
  std::vector<ExtendOutcome> extend(std::span<const LeaseExtension> extensions,
                                    const CallOptions& call = {});
  ExtendOutcome extend(const LeaseExtension& extension, const CallOptions& call = {});

  /// Ends lapsed leases, and buries messages that expired or were delivered too often; up to
  /// `limit` in all. Touches neither done nor dead messages, and no attempt counter. Call again
  /// while the total equals the limit.
  ReapResult reap(const ReapRequest& request = {}, const CallOptions& call = {});

  /// The earliest time after now at which a message of these topics may become claimable: it is
  /// due, its backoff is over, or its lease lapses. Nothing when no message waits for a time. The
  /// answer may be too early, for a message behind another of its partition or a lease of another
  /// topic; it is never too late.
  [[nodiscard]] std::optional<TimePoint> next_due(const TopicSelection& topics = {},
                                                  const CallOptions& call = {});

  /// Tells `listener`, for as long as it lives, of every commit that may have made a message
  /// claimable, so that a worker need not poll. It may be told too often. Ignored by a store whose
  /// capabilities do not say `notifies`.
  void listen(std::weak_ptr<WorkListener> listener);

  /// Leaves an offer to claim with the store, for as long as the caller keeps it: an enqueue
  /// through this object may then hand its new messages over with its own commit. The enqueuer sees
  /// no difference, and the messages are as a claim with this request would have left them. Ignored
  /// by a store that cannot do it faster than a claim can.
  void offer(const std::shared_ptr<ClaimOffer>& offer);

  /// What is stored under each key, or nothing. Much is read in several steps, each a transaction.
  [[nodiscard]] std::vector<std::optional<MessageRecord>> find(std::span<const MessageKey> keys,
                                                               const CallOptions& call = {});
  [[nodiscard]] std::optional<MessageRecord> find(const MessageKey& key,
                                                  const CallOptions& call = {});

  /// The same for the first of the keys: as many as the options have room for, and at least one.
  /// Whoever wants the others asks again for these. A key that comes several times is read once.
  [[nodiscard]] std::vector<std::optional<MessageRecord>> find_some(
      std::span<const MessageKey> keys, const FindOptions& options, const CallOptions& call = {});

  /// For handlers that work in a transaction of the store; null when it has none to offer.
  [[nodiscard]] virtual TransactionalQueue* transactional() noexcept { return nullptr; }

  /// For a caller that has another thread make a call, and waits for it. Throws `conflict` when
  /// this thread is in such a handler and the call could not begin before the handler returns: they
  /// would wait for each other.
  void require_outside_transaction() const { do_require_outside_transaction(); }

 protected:
  QueueStore() = default;

 private:
  virtual std::vector<EnqueueOutcome> do_enqueue(std::span<const Message> messages,
                                                 const EnqueueOptions& options) = 0;
  virtual std::vector<ObserveOutcome> do_observe(std::span<const Observation> observations) = 0;
  virtual std::vector<MarkOutcome> do_mark(std::span<const Mark> marks) = 0;
  virtual ClaimResult do_claim(const ClaimRequest& request) = 0;
  virtual std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) = 0;
  virtual std::vector<ExtendOutcome> do_extend(std::span<const LeaseExtension> extensions) = 0;
  virtual ReapResult do_reap(const ReapRequest& request) = 0;
  virtual std::optional<TimePoint> do_next_due(const TopicSelection& topics) = 0;
  virtual void do_listen(std::weak_ptr<WorkListener> listener) = 0;
  virtual void do_offer(const std::shared_ptr<ClaimOffer>& /*offer*/) {}
  /// As `find_some`; the keys differ from each other.
  virtual std::vector<std::optional<MessageRecord>> do_find(std::span<const MessageKey> keys,
                                                            const FindOptions& options) = 0;
  virtual void do_require_outside_transaction() const {}
};

}  // namespace oncebox
