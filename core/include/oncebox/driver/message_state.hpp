#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/message.hpp"
#include "oncebox/operator_action.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/topic_policy.hpp"
#include "oncebox/transaction.hpp"

/// What happens to a message in each situation (decision 0004), as plain functions on its state,
/// for the stores that read a row, decide, and write it back. Nothing here throws or looks at a
/// clock; texts are given ready to keep (see `error_text`).
namespace oncebox {

/// Everything about a message that its life changes, apart from its content.
struct MessageState {
  Status status = Status::seen;
  std::optional<ContentHash> hash = {};
  Priority priority = {};
  std::optional<TimePoint> due_at = {};
  std::optional<TimePoint> expires_at = {};
  TimePoint backoff_until{};
  /// When it became, or becomes, claimable. Kept while it is leased: a release goes back to it.
  TimePoint eligible_at{};
  MessageHistory history = {};
  std::optional<MessageLease> lease = {};
  int claimed_version = 0;  ///< the content version that the lease's holder was given
  std::optional<TimePoint> finished_at = {};
  Revivals revivals = {};
  std::optional<PartitionKey> partition_key = {};
  std::uint64_t enqueue_order = 0;  ///< 0: never enqueued

  [[nodiscard]] bool expired_at(TimePoint now) const noexcept {
    return expires_at && *expires_at <= now;
  }
  /// The later of `time` and the due time.
  [[nodiscard]] TimePoint not_before(TimePoint time) const noexcept {
    return due_at && *due_at > time ? *due_at : time;
  }
};

// States ----------------------------------------------------------------------------------------

/// What a message is doing, and what it waits for while it is waiting.
struct ShownState {
  State state = State::seen;
  std::optional<WaitingFor> waiting_for = {};

  friend bool operator==(const ShownState&, const ShownState&) = default;
};

/// Whether a message that is not leased stands behind another one of its partition.
enum class PartitionPlace { free, blocked };

/// What a message is doing at `now`, unless its topic is paused.
[[nodiscard]] ShownState shown_state(const MessageState& state, PartitionPlace place,
                                     TimePoint now) noexcept;

/// The same while its topic is paused.
[[nodiscard]] ShownState while_paused(ShownState shown) noexcept;

[[nodiscard]] ObservedState observed_state(State state) noexcept;

// Intake ----------------------------------------------------------------------------------------

/// Both hashes are there, of one algorithm, and differ.
[[nodiscard]] bool hashes_differ(const std::optional<ContentHash>& stored,
                                 const std::optional<ContentHash>& offered) noexcept;

/// Whether a message has the content that is stored with this hash; nothing when there are no two
/// hashes of one algorithm to tell.
[[nodiscard]] std::optional<bool> same_by_hash(const std::optional<ContentHash>& stored_hash,
                                               const Message& message) noexcept;
/// Equal hashes of one algorithm mean equal content; without them equal payloads do.
[[nodiscard]] bool same_content(const std::optional<ContentHash>& stored_hash,
                                const Payload& stored_payload, const Message& message) noexcept;

/// Whether the same content again leaves a message as it is: under `keep_first`, unless the message
/// is dead and comes back.
[[nodiscard]] bool stays_as_first(Status status, const EnqueueOptions& options) noexcept;

/// What the sender of a message that changes nothing is told.
[[nodiscard]] EnqueueStatus duplicate_status(Status status) noexcept;

/// +1, unless that would overflow: a sender that never stops must do no harm.
void count_duplicate(MessageHistory& history) noexcept;

/// Takes priority, due time and expiry from a message, null included.
void take_schedule(MessageState& state, const Message& message) noexcept;

/// Finds the place of a message in processing after `take_schedule`: a duplicate must neither lose
/// nor gain a place in line, nor shorten a backoff.
void reschedule(MessageState& state, TimePoint now) noexcept;

/// After the clock was set back to `now`: a message waits for its due time and its backoff only,
/// not until the clock reaches the time at which it came; and a lease that began later than now
/// begins now. Harmless when it is done twice. Answers whether anything changed.
bool mend_times(MessageState& state, TimePoint now) noexcept;

// Work ------------------------------------------------------------------------------------------

/// The chance for the jitter of the delay after a failure: messages that fail together have numbers
/// that follow each other, and must not come back together.
[[nodiscard]] std::uint64_t retry_chance(DeliveryNumber failed) noexcept;

/// What is kept of an error text: cut to its limit, valid UTF-8.
[[nodiscard]] std::string error_text(const std::string& text);
[[nodiscard]] std::string error_text(const Verdict& verdict);

/// Whether this delivery is the one that holds the message.
[[nodiscard]] bool is_held_by(const MessageState& state, const Delivery& delivery) noexcept;

/// The attempt that ends with this verdict, for a delivery that holds the message; without its
/// number, which the store gives. Nothing for a release. To be asked before `apply_verdict`. One
/// that succeeded is to be kept only where others are.
[[nodiscard]] std::optional<Attempt> ended_attempt(const MessageState& state,
                                                   const Verdict& verdict, TimePoint now);

/// The attempt that ended with the lease. To be asked before `lapse` or `bury`; nothing for a
/// message without lease.
[[nodiscard]] std::optional<Attempt> lapsed_attempt(const MessageState& state);

/// The attempt that ends because somebody without the lease marks the message; `error` is the
/// mark's `error_text`. Marked as processed it has succeeded, and is to be kept only where others
/// are; marked as processing it was no attempt, as after a release. To be asked before
/// `apply_mark`.
[[nodiscard]] std::optional<Attempt> marked_attempt(const MessageState& state, MarkAs as,
                                                    const std::string& error, TimePoint now);

/// The attempt that ends because an operator cancels the message; nothing for another action, and
/// for a message without lease. `error` is the `cancellation_text`. To be asked before
/// `apply_action`, and kept when that has changed something.
[[nodiscard]] std::optional<Attempt> cancelled_attempt(const MessageState& state,
                                                       const OperatorAction& action,
                                                       const std::string& error, TimePoint now);

/// False only when no attempt of this message can have been kept, so that nobody need look.
[[nodiscard]] bool may_have_attempts(const MessageState& state) noexcept;

/// Gives the message to an owner.
void hand_out(MessageState& state, MessageLease lease) noexcept;

/// Tells claimed messages where their attempts end by these policies.
void tell_attempt_limits(std::span<ClaimedMessage> claimed, const TopicPolicies& policies) noexcept;

/// Ends the delivery that holds the message. `error` is the verdict's `error_text`; `policy` is the
/// one of the message's topic, and decides where the verdict does not.
SettleOutcome apply_verdict(MessageState& state, const Verdict& verdict, std::string error,
                            const ResolvedPolicy& policy, TimePoint now) noexcept;

/// `error` is the mark's `error_text`.
MarkOutcome apply_mark(MessageState& state, MarkAs as, std::string error, TimePoint now) noexcept;

/// Ends a work as done or dead.
void finish(MessageState& state, Status status, TimePoint now) noexcept;

/// Why a message that is not to be handed out any more dies: its lease has lapsed too often, or it
/// has expired. Nothing when it may live on.
[[nodiscard]] std::optional<std::string> cause_of_death(const MessageState& state,
                                                        const ResolvedPolicy& policy,
                                                        TimePoint now);

/// Ends a lapsed lease.
void lapse(MessageState& state) noexcept;

/// Ends the life of a message that expired or lapsed too often.
void bury(MessageState& state, std::string cause, TimePoint now) noexcept;

/// Brings a dead message back to where a claim can take it, or to seen when it was never enqueued.
void bring_back(MessageState& state, TimePoint eligible_at, std::string reason,
                TimePoint now) noexcept;

/// Revives a dead message for an operator. The end of a delay becomes its due time, unless that is
/// later: its age counts from there. An expiry at or before the time at which it can be claimed is
/// dropped.
void revive_after(MessageState& state, Duration delay, std::string reason, TimePoint now) noexcept;

/// The error of a message that is cancelled for this reason.
[[nodiscard]] std::string cancellation_text(const std::string& reason);
/// Whether an error is one of these.
[[nodiscard]] bool is_cancellation_text(std::string_view error) noexcept;

enum class ActEffect {
  none,           ///< the action does not apply
  expires_first,  ///< nothing changed: it would be handed out only after it has expired
  changed,
  removed,
};

[[nodiscard]] ActOutcome outcome_of(ActEffect effect) noexcept;

/// Does what an operator asks with a message that is doing `shown`: nothing when the action does
/// not apply. The caller removes what is to be removed. `error` is the `cancellation_text`.
ActEffect apply_action(MessageState& state, const OperatorAction& action, const ShownState& shown,
                       std::string error, TimePoint now) noexcept;

/// Notes that an operator replaced the payload by one with this hash.
void take_edit(MessageState& state, ContentHash hash) noexcept;

}  // namespace oncebox
