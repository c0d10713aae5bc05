#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "json_reader.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/endpoint_store.hpp"
#include "oncebox/error.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/store.hpp"
#include "oncebox/watch_report.hpp"

/// The words by which enums go over the wire: the one place where they are spelled.
namespace oncebox::wire {

template <class Enum>
struct Word {
  Enum value;
  std::string_view word;
};

/// The words of an enum, specialised below.
template <class Enum>
inline constexpr std::array<Word<Enum>, 0> kWords = {};

template <>
inline constexpr std::array kWords<Status> = {
    Word<Status>{Status::seen, "Seen"},
    Word<Status>{Status::processing, "Processing"},
    Word<Status>{Status::done, "Done"},
    Word<Status>{Status::dead, "Dead"},
};

template <>
inline constexpr std::array kWords<State> = {
    Word<State>{State::seen, "Seen"},   Word<State>{State::waiting, "Waiting"},
    Word<State>{State::ready, "Ready"}, Word<State>{State::leased, "Leased"},
    Word<State>{State::done, "Done"},   Word<State>{State::dead, "Dead"},
};

template <>
inline constexpr std::array kWords<WaitingFor> = {
    Word<WaitingFor>{WaitingFor::content, "Content"},
    Word<WaitingFor>{WaitingFor::partition, "Partition"},
    Word<WaitingFor>{WaitingFor::due, "Due"},
    Word<WaitingFor>{WaitingFor::backoff, "Backoff"},
    Word<WaitingFor>{WaitingFor::pause, "Pause"},
};

template <>
inline constexpr std::array kWords<EnqueueStatus> = {
    Word<EnqueueStatus>{EnqueueStatus::accepted, "Accepted"},
    Word<EnqueueStatus>{EnqueueStatus::duplicate, "Duplicate"},
    Word<EnqueueStatus>{EnqueueStatus::updated, "Updated"},
    Word<EnqueueStatus>{EnqueueStatus::superseding, "Superseding"},
    Word<EnqueueStatus>{EnqueueStatus::duplicate_done, "DuplicateDone"},
    Word<EnqueueStatus>{EnqueueStatus::duplicate_dead, "DuplicateDead"},
    Word<EnqueueStatus>{EnqueueStatus::revived, "Revived"},
    Word<EnqueueStatus>{EnqueueStatus::rejected, "Rejected"},
    Word<EnqueueStatus>{EnqueueStatus::quarantined, "Quarantined"},
};

template <>
inline constexpr std::array kWords<HealthStatus> = {
    Word<HealthStatus>{HealthStatus::healthy, "Healthy"},
    Word<HealthStatus>{HealthStatus::degraded, "Degraded"},
    Word<HealthStatus>{HealthStatus::unavailable, "Unavailable"},
};

template <>
inline constexpr std::array kWords<FindingCode> = {
    Word<FindingCode>{FindingCode::lease_stuck, "LeaseStuck"},
    Word<FindingCode>{FindingCode::ready_late, "ReadyLate"},
    Word<FindingCode>{FindingCode::store_lagging, "StoreLagging"},
    Word<FindingCode>{FindingCode::topic_poison, "TopicPoison"},
};

template <>
inline constexpr std::array kWords<Jitter> = {
    Word<Jitter>{Jitter::none, "None"},
    Word<Jitter>{Jitter::equal, "Equal"},
    Word<Jitter>{Jitter::full, "Full"},
};

template <>
inline constexpr std::array kWords<PolicyOrigin> = {
    Word<PolicyOrigin>{PolicyOrigin::worker, "Worker"},
    Word<PolicyOrigin>{PolicyOrigin::topic, "Topic"},
    Word<PolicyOrigin>{PolicyOrigin::queue, "Queue"},
};

template <>
inline constexpr std::array kWords<ObservedState> = {
    Word<ObservedState>{ObservedState::unseen, "Unseen"},
    Word<ObservedState>{ObservedState::seen, "Seen"},
    Word<ObservedState>{ObservedState::waiting, "Waiting"},
    Word<ObservedState>{ObservedState::ready, "Ready"},
    Word<ObservedState>{ObservedState::leased, "Leased"},
    Word<ObservedState>{ObservedState::done, "Done"},
    Word<ObservedState>{ObservedState::dead, "Dead"},
};

template <>
inline constexpr std::array kWords<MarkAs> = {
    Word<MarkAs>{MarkAs::processing, "Processing"},
    Word<MarkAs>{MarkAs::processed, "Processed"},
    Word<MarkAs>{MarkAs::dead, "Dead"},
};

template <>
inline constexpr std::array kWords<MarkOutcome> = {
    Word<MarkOutcome>{MarkOutcome::marked, "Marked"},
    Word<MarkOutcome>{MarkOutcome::already, "Already"},
    Word<MarkOutcome>{MarkOutcome::unknown, "Unknown"},
    Word<MarkOutcome>{MarkOutcome::refused, "Refused"},
};

template <>
inline constexpr std::array kWords<SettleStatus> = {
    Word<SettleStatus>{SettleStatus::settled, "Settled"},
    Word<SettleStatus>{SettleStatus::superseded, "Superseded"},
    Word<SettleStatus>{SettleStatus::lease_lost, "LeaseLost"},
};

template <>
inline constexpr std::array kWords<AttemptOutcome> = {
    Word<AttemptOutcome>{AttemptOutcome::succeeded, "Succeeded"},
    Word<AttemptOutcome>{AttemptOutcome::abandoned, "Abandoned"},
    Word<AttemptOutcome>{AttemptOutcome::failed, "Failed"},
    Word<AttemptOutcome>{AttemptOutcome::lapsed, "Lapsed"},
    Word<AttemptOutcome>{AttemptOutcome::superseded, "Superseded"},
    Word<AttemptOutcome>{AttemptOutcome::cancelled, "Cancelled"},
    Word<AttemptOutcome>{AttemptOutcome::marked_dead, "MarkedDead"},
};

template <>
inline constexpr std::array kWords<SettledDeath> = {
    Word<SettledDeath>{SettledDeath::failed, "Failed"},
    Word<SettledDeath>{SettledDeath::attempts, "Attempts"},
};

template <>
inline constexpr std::array kWords<ListOrder> = {
    Word<ListOrder>{ListOrder::oldest_first, "OldestFirst"},
    Word<ListOrder>{ListOrder::newest_first, "NewestFirst"},
};

template <>
inline constexpr std::array kWords<ReviveOutcome> = {
    Word<ReviveOutcome>{ReviveOutcome::revived, "Revived"},
    Word<ReviveOutcome>{ReviveOutcome::not_dead, "NotDead"},
    Word<ReviveOutcome>{ReviveOutcome::unknown, "Unknown"},
    Word<ReviveOutcome>{ReviveOutcome::no_content, "NoContent"},
};

template <>
inline constexpr std::array kWords<PurgeOutcome> = {
    Word<PurgeOutcome>{PurgeOutcome::purged, "Purged"},
    Word<PurgeOutcome>{PurgeOutcome::not_dead, "NotDead"},
    Word<PurgeOutcome>{PurgeOutcome::unknown, "Unknown"},
};

template <>
inline constexpr std::array kWords<ActOutcome> = {
    Word<ActOutcome>{ActOutcome::changed, "Changed"},
    Word<ActOutcome>{ActOutcome::refused, "Refused"},
    Word<ActOutcome>{ActOutcome::expires_first, "ExpiresFirst"},
    Word<ActOutcome>{ActOutcome::unknown, "Unknown"},
};

template <>
inline constexpr std::array kWords<AuditAction> = {
    Word<AuditAction>{AuditAction::revive, "Revive"},
    Word<AuditAction>{AuditAction::revive_edited, "ReviveEdited"},
    Word<AuditAction>{AuditAction::purge, "Purge"},
    Word<AuditAction>{AuditAction::cleanup, "Cleanup"},
    Word<AuditAction>{AuditAction::pause, "Pause"},
    Word<AuditAction>{AuditAction::resume, "Resume"},
    Word<AuditAction>{AuditAction::set_policy, "SetPolicy"},
    Word<AuditAction>{AuditAction::cancel, "Cancel"},
    Word<AuditAction>{AuditAction::run_now, "RunNow"},
    Word<AuditAction>{AuditAction::reschedule, "Reschedule"},
    Word<AuditAction>{AuditAction::delete_messages, "Delete"},
    Word<AuditAction>{AuditAction::set_endpoint, "SetEndpoint"},
    Word<AuditAction>{AuditAction::remove_endpoint, "RemoveEndpoint"},
    Word<AuditAction>{AuditAction::disable_endpoint, "DisableEndpoint"},
    Word<AuditAction>{AuditAction::enable_endpoint, "EnableEndpoint"},
    Word<AuditAction>{AuditAction::resend, "Resend"},
};

template <>
inline constexpr std::array kWords<EndpointSaved> = {
    Word<EndpointSaved>{EndpointSaved::created, "Created"},
    Word<EndpointSaved>{EndpointSaved::changed, "Changed"},
    Word<EndpointSaved>{EndpointSaved::unchanged, "Unchanged"},
};

template <>
inline constexpr std::array kWords<EndpointEvent::Kind> = {
    Word<EndpointEvent::Kind>{EndpointEvent::Kind::failed, "Failed"},
    Word<EndpointEvent::Kind>{EndpointEvent::Kind::worked, "Worked"},
    Word<EndpointEvent::Kind>{EndpointEvent::Kind::disabled, "Disabled"},
    Word<EndpointEvent::Kind>{EndpointEvent::Kind::enabled, "Enabled"},
};

template <>
inline constexpr std::array kWords<EndpointSecrets> = {
    Word<EndpointSecrets>{EndpointSecrets::leave_out, "LeaveOut"},
    Word<EndpointSecrets>{EndpointSecrets::include, "Include"},
};

template <>
inline constexpr std::array kWords<AuditedPart> = {
    Word<AuditedPart>{AuditedPart::inbox, "Inbox"},
    Word<AuditedPart>{AuditedPart::outbox, "Outbox"},
    Word<AuditedPart>{AuditedPart::keys, "Keys"},
    Word<AuditedPart>{AuditedPart::audit_trail, "AuditTrail"},
    Word<AuditedPart>{AuditedPart::deliveries, "Deliveries"},
    Word<AuditedPart>{AuditedPart::endpoints, "Endpoints"},
};

template <>
inline constexpr std::array kWords<AuditStatus> = {
    Word<AuditStatus>{AuditStatus::succeeded, "Succeeded"},
    Word<AuditStatus>{AuditStatus::failed, "Failed"},
    Word<AuditStatus>{AuditStatus::unknown, "Unknown"},
};

template <>
inline constexpr std::array kWords<KeyStatus> = {
    Word<KeyStatus>{KeyStatus::in_progress, "InProgress"},
    Word<KeyStatus>{KeyStatus::released, "Released"},
    Word<KeyStatus>{KeyStatus::failed, "Failed"},
    Word<KeyStatus>{KeyStatus::processed, "Processed"},
};

template <>
inline constexpr std::array kWords<FailedKeyPolicy> = {
    Word<FailedKeyPolicy>{FailedKeyPolicy::retry, "Retry"},
    Word<FailedKeyPolicy>{FailedKeyPolicy::suppress, "Suppress"},
};

template <>
inline constexpr std::array kWords<BeginStatus> = {
    Word<BeginStatus>{BeginStatus::acquired, "Acquired"},
    Word<BeginStatus>{BeginStatus::processed, "Processed"},
    Word<BeginStatus>{BeginStatus::busy, "Busy"},
    Word<BeginStatus>{BeginStatus::failed, "Failed"},
};

template <>
inline constexpr std::array kWords<CompleteOutcome> = {
    Word<CompleteOutcome>{CompleteOutcome::processed, "Processed"},
    Word<CompleteOutcome>{CompleteOutcome::lease_lost, "LeaseLost"},
};

template <>
inline constexpr std::array kWords<FailOutcome> = {
    Word<FailOutcome>{FailOutcome::failed, "Failed"},
    Word<FailOutcome>{FailOutcome::lease_lost, "LeaseLost"},
};

template <>
inline constexpr std::array kWords<ReleaseOutcome> = {
    Word<ReleaseOutcome>{ReleaseOutcome::released, "Released"},
    Word<ReleaseOutcome>{ReleaseOutcome::lease_lost, "LeaseLost"},
    Word<ReleaseOutcome>{ReleaseOutcome::processed, "Processed"},
    Word<ReleaseOutcome>{ReleaseOutcome::unknown, "Unknown"},
};

/// The four verdicts by their place in the variant.
enum class VerdictKind : std::size_t { ack, abandon, fail, release };

template <>
inline constexpr std::array kWords<VerdictKind> = {
    Word<VerdictKind>{VerdictKind::ack, "Ack"},
    Word<VerdictKind>{VerdictKind::abandon, "Abandon"},
    Word<VerdictKind>{VerdictKind::fail, "Fail"},
    Word<VerdictKind>{VerdictKind::release, "Release"},
};

template <class Enum>
[[nodiscard]] std::string_view word_of(Enum value) {
  for (const Word<Enum>& entry : kWords<Enum>) {
    if (entry.value == value) return entry.word;
  }
  throw Error(ErrorCode::internal, "a value without a word");
}

/// Throws at `place` when the text is none of the words.
template <class Enum>
[[nodiscard]] Enum parse_word(std::string_view text, const Place& place) {
  std::array<std::string_view, kWords<Enum>.size()> words;
  for (std::size_t index = 0; index < words.size(); ++index) {
    words[index] = kWords<Enum>[index].word;
    if (words[index] == text) return kWords<Enum>[index].value;
  }
  place.fail("this word is not known" + hint(text, words));
}

template <class Enum>
[[nodiscard]] Enum read_word(const JsonValue& value) {
  return parse_word<Enum>(value.text(), value.place());
}

}  // namespace oncebox::wire
