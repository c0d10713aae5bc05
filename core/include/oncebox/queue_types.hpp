#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/message.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/worker.hpp"

/// What goes into the calls of a `QueueStore` and what comes out of them.
namespace oncebox {

// Enqueue ---------------------------------------------------------------------------------------

/// What to do when a key comes again with a different hash of the same algorithm.
enum class HashMismatchPolicy {
  warn,        ///< go on as if there were no hashes; the outcome carries the flag
  reject,      ///< change nothing but last_seen; outcome `rejected`
  quarantine,  ///< keep the original; store the newcomer dead under a derived id
  /// What came first stands. Other content, which is another topic too, is treated as by `reject`,
  /// also where hashes do not tell; the same content changes nothing but last_seen and duplicates.
  keep_first,
};

/// What to do when a dead message is enqueued again.
enum class DeadPolicy {
  keep,    ///< update the content and leave it dead
  revive,  ///< update the content and bring it back
};

struct EnqueueOptions {
  HashMismatchPolicy on_hash_mismatch = HashMismatchPolicy::warn;
  DeadPolicy on_dead = DeadPolicy::keep;
};

enum class EnqueueStatus {
  accepted,        ///< new to the queue: it will be handed out
  duplicate,       ///< known and not finished, same content: nothing new to hand out
  updated,         ///< known and not leased, other content: the new one will be handed out
  superseding,     ///< leased, other content: the holder's settlement will be `superseded` (R-07)
  duplicate_done,  ///< already handled: nothing but last_seen and duplicates changed (R-06)
  duplicate_dead,  ///< dead: content updated, still dead (R-05)
  revived,         ///< dead, and brought back by `DeadPolicy::revive`
  rejected,        ///< hash mismatch under `reject`, or other content under `keep_first`
  quarantined,     ///< hash mismatch under `quarantine`: stored dead as `quarantined_as`
};

[[nodiscard]] std::string_view to_string(EnqueueStatus status) noexcept;

struct EnqueueOutcome {
  EnqueueStatus status = EnqueueStatus::accepted;
  bool hash_mismatch = false;
  std::optional<MessageId> quarantined_as = {};
  /// Of one that is quarantined: it is dead since this call. False for the same content again,
  /// which is told apart from a new death by this alone.
  bool newly_dead = false;

  friend bool operator==(const EnqueueOutcome&, const EnqueueOutcome&) = default;
};

/// Whether the message is in processing: there may be something to hand out, now or sooner than
/// before.
[[nodiscard]] bool brings_work(const EnqueueOutcome& outcome) noexcept;

/// The id under which the source's message `key` with another `hash` is quarantined: the same for
/// the same content, so that a quarantined redelivery is a duplicate too.
[[nodiscard]] MessageId quarantine_id(const MessageKey& key, const ContentHash& hash);

/// The message that `quarantine` stores in place of `original`.
[[nodiscard]] Message quarantined_copy(const Message& original);

// Find ------------------------------------------------------------------------------------------

enum class ListPayloads { omit, include };

/// How much one call reads of the records that it looks up.
struct FindOptions {
  /// Records without payloads have no attempts either, as in a list.
  ListPayloads payloads = ListPayloads::include;
  /// The answer ends, at the latest, before its records would have more bytes than this together,
  /// as `bytes_of` counts them; the first is there whatever its size.
  std::size_t max_bytes = limits::kMaxClaimBytes;
};

/// What a record counts in an answer: its payload, headers and attempts.
[[nodiscard]] std::size_t bytes_of(const MessageRecord& record) noexcept;

// Observe and mark ------------------------------------------------------------------------------

struct Observation {
  MessageKey key;
  std::optional<ContentHash> hash = {};
};

/// What was known of a key before it was observed: nothing, or its state.
enum class ObservedState {
  unseen,  ///< never stored before: it is now
  seen,
  waiting,
  ready,
  leased,
  done,
  dead,
};

[[nodiscard]] std::string_view to_string(ObservedState state) noexcept;

struct ObserveOutcome {
  ObservedState state = ObservedState::unseen;
  bool hash_mismatch = false;

  [[nodiscard]] bool already_processed() const noexcept { return state == ObservedState::done; }
  friend bool operator==(const ObserveOutcome&, const ObserveOutcome&) = default;
};

enum class MarkAs { processing, processed, dead };

struct Mark {
  MessageKey key;
  MarkAs as = MarkAs::processed;
  std::string error = {};  ///< why, for `dead`
};

enum class MarkOutcome {
  marked,   ///< the message is in that state now
  already,  ///< it was done, or dead, before; a dead one keeps its time and has the new error
  unknown,  ///< no such key; nothing changed (R-03)
  refused,  ///< done stays done, and only a revival leaves dead for processing; nothing changed
};

[[nodiscard]] std::string_view to_string(MarkOutcome outcome) noexcept;

// Reap ------------------------------------------------------------------------------------------

struct ReapRequest {
  std::size_t limit = 1'000;
};

/// A message that went dead without a verdict: it expired, or was delivered too often.
struct Death {
  MessageKey key;
  Topic topic;
  std::string cause;  ///< its last error now

  friend bool operator==(const Death&, const Death&) = default;
};

struct ReapResult {
  static constexpr std::size_t kMaxDeaths = 1'000;

  std::size_t released = 0;        ///< lapsed leases ended: the messages can be claimed again
  std::size_t buried = 0;          ///< messages that went dead
  std::vector<Death> deaths = {};  ///< theirs; of very many the first `kMaxDeaths`

  [[nodiscard]] std::size_t total() const noexcept { return released + buried; }
  void add(Death death);
  void add(ReapResult more);

  friend bool operator==(const ReapResult&, const ReapResult&) = default;
};

// Claim and settle ------------------------------------------------------------------------------

struct ClaimRequest {
  OwnerToken owner;
  Duration lease = defaults::kLease;
  std::size_t limit = defaults::kBatchSize;
  /// The batch ends before its messages would have more bytes than this together, as `bytes_of`
  /// counts them: payloads and headers. The first message is handed out whatever its size. So a
  /// backlog of large messages does not fill the memory.
  std::size_t max_bytes = limits::kMaxClaimBytes;
  TopicSelection topics = {};  ///< at most `kMaxTopicPatterns` patterns, of 64 KiB together
  /// Who asks, for people: leases and attempts are shown with it. Nothing: `this_process()`.
  std::optional<WorkerName> worker = {};
};

/// The name under which this claim is made.
[[nodiscard]] WorkerName worker_of(const ClaimRequest& request);

/// The messages that were handed out, as which it can be used; and what the claim had to clear away
/// first, as `reap` answers it.
struct ClaimResult {
  std::vector<ClaimedMessage> messages = {};
  ReapResult reaped = {};

  [[nodiscard]] bool empty() const noexcept { return messages.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return messages.size(); }
  [[nodiscard]] auto begin() noexcept { return messages.begin(); }
  [[nodiscard]] auto end() noexcept { return messages.end(); }
  [[nodiscard]] auto begin() const noexcept { return messages.begin(); }
  [[nodiscard]] auto end() const noexcept { return messages.end(); }
  [[nodiscard]] const ClaimedMessage& operator[](std::size_t i) const { return messages[i]; }
  [[nodiscard]] const ClaimedMessage& at(std::size_t i) const { return messages.at(i); }
  [[nodiscard]] const ClaimedMessage& front() const { return messages.front(); }
  [[nodiscard]] const ClaimedMessage& back() const { return messages.back(); }
  // NOLINTNEXTLINE(google-explicit-constructor): it is its messages, for those who want no more.
  operator std::vector<ClaimedMessage>() && noexcept { return std::move(messages); }
};

/// Names one delivery to settle or extend. Without a number any delivery to this owner is meant.
struct Delivery {
  MessageKey key;
  OwnerToken owner;
  std::optional<DeliveryNumber> number = {};
};

[[nodiscard]] inline Delivery delivery_of(const ClaimedMessage& claimed) {
  return {claimed.message.key, claimed.owner, claimed.delivery};
}

/// Handled: the message is done.
struct Ack {};

/// Failed for now: attempt + 1. The message can be claimed again after the delay; it is dead if
/// this was its last attempt. The policy of its topic says when and which, unless the worker
/// has rules of its own; so attempts end whoever works, and through whatever handle.
struct Abandon {
  std::string error = {};                  ///< empty: the last error is kept
  std::optional<Duration> delay = {};      ///< positive; nothing: as the policy says
  std::optional<AttemptLimit> limit = {};  ///< nothing: as the policy says
  bool delay_is_least = false;             ///< the policy's delay holds where it is longer
  /// A word for what went wrong, such as the type of an exception; kept with the attempt.
  std::string error_kind = {};
};

/// Failed for good: the message is dead. That is a failed attempt, too.
struct Fail {
  std::string error;
  std::string error_kind = {};  ///< as for `Abandon`
  /// The delivery itself was not tried: the message is dead for what was before. No attempt is
  /// counted or kept.
  bool untried = false;
};

/// Not tried: no attempt is counted. The message can be claimed again after the delay; without one
/// at once, in its old place.
struct Release {
  std::optional<Duration> delay = {};  ///< positive
};

using Verdict = std::variant<Ack, Abandon, Fail, Release>;

struct Settlement {
  Delivery delivery;
  Verdict verdict = Ack{};
};

enum class SettleStatus {
  settled,     ///< the verdict took effect
  superseded,  ///< new content came meanwhile: the lease ended and the message is ready again
               ///< (R-07)
  lease_lost,  ///< unknown key, not the holder, settled before, or claimed again: nothing changed
};

[[nodiscard]] std::string_view to_string(SettleStatus status) noexcept;

/// Why a settlement made a message dead.
enum class SettledDeath {
  failed,    ///< the verdict was `Fail`
  attempts,  ///< this was the last attempt
};

[[nodiscard]] std::string_view to_string(SettledDeath death) noexcept;

/// Whose rules said how many attempts there are.
enum class PolicyOrigin {
  worker,  ///< the verdict's own limit
  topic,   ///< a rule for the message's topic
  queue,   ///< what the queue does by itself
};

[[nodiscard]] std::string_view to_string(PolicyOrigin origin) noexcept;

/// What became of a delivery and, unless the lease was lost, of its message: it comes back at a
/// time, it is dead, or with neither it is done.
struct SettleOutcome {
  SettleStatus status = SettleStatus::settled;
  std::optional<TimePoint> again_at = {};  ///< when it can be claimed again
  std::optional<SettledDeath> death = {};
  std::optional<PolicyOrigin> policy = {};  ///< after an `Abandon` that took effect

  friend bool operator==(const SettleOutcome&, const SettleOutcome&) = default;
  friend bool operator==(const SettleOutcome& outcome, SettleStatus other) noexcept {
    return outcome.status == other;
  }
};

struct LeaseExtension {
  Delivery delivery;
  Duration lease = defaults::kLease;  ///< counted from now; a lease is never shortened
};

/// The new end of the lease; nothing when the lease was lost.
struct ExtendOutcome {
  std::optional<TimePoint> locked_until = {};

  friend bool operator==(const ExtendOutcome&, const ExtendOutcome&) = default;
};

}  // namespace oncebox
