#include "oncebox/audit_trail.hpp"

#include <algorithm>
#include <array>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "valid_calls.hpp"

namespace oncebox {

AuditAction audit_action(const OperatorAction& action) noexcept {
  constexpr std::array<AuditAction, std::variant_size_v<OperatorAction>> kActions{
      AuditAction::cancel, AuditAction::run_now, AuditAction::reschedule,
      AuditAction::delete_messages, AuditAction::purge};
  return kActions[action.index()];
}

AuditedPart audited_part(QueueKind queue) noexcept {
  switch (queue) {
    case QueueKind::inbox:
      return AuditedPart::inbox;
    case QueueKind::outbox:
      return AuditedPart::outbox;
    case QueueKind::deliveries:
      break;
  }
  return AuditedPart::deliveries;
}

AuditAction audit_action_of(const TopicPolicyChange& change) {
  TopicPolicyChange other = change;
  other.paused = {};
  if (change.paused.leaves() || !other.empty()) return AuditAction::set_policy;
  return change.paused.value().value_or(false) ? AuditAction::pause : AuditAction::resume;
}

std::string_view to_string(AuditAction action) noexcept {
  switch (action) {
    case AuditAction::revive:
      return "revive";
    case AuditAction::revive_edited:
      return "revive_edited";
    case AuditAction::purge:
      return "purge";
    case AuditAction::cleanup:
      return "cleanup";
    case AuditAction::pause:
      return "pause";
    case AuditAction::resume:
      return "resume";
    case AuditAction::set_policy:
      return "set_policy";
    case AuditAction::cancel:
      return "cancel";
    case AuditAction::run_now:
      return "run_now";
    case AuditAction::reschedule:
      return "reschedule";
    case AuditAction::delete_messages:
      return "delete";
    case AuditAction::set_endpoint:
      return "set_endpoint";
    case AuditAction::remove_endpoint:
      return "remove_endpoint";
    case AuditAction::disable_endpoint:
      return "disable_endpoint";
    case AuditAction::enable_endpoint:
      return "enable_endpoint";
    case AuditAction::resend:
      return "resend";
  }
  return "unknown";
}

std::string_view to_string(AuditedPart part) noexcept {
  switch (part) {
    case AuditedPart::inbox:
      return "inbox";
    case AuditedPart::outbox:
      return "outbox";
    case AuditedPart::keys:
      return "keys";
    case AuditedPart::audit_trail:
      return "audit_trail";
    case AuditedPart::deliveries:
      return "deliveries";
    case AuditedPart::endpoints:
      return "endpoints";
  }
  return "unknown";
}

std::string_view to_string(AuditStatus status) noexcept {
  switch (status) {
    case AuditStatus::succeeded:
      return "succeeded";
    case AuditStatus::failed:
      return "failed";
    case AuditStatus::unknown:
      return "unknown";
  }
  return "unknown";
}

bool AuditFilter::matches(const AuditRecord& record) const {
  if (actor && record.entry.actor != *actor) return false;
  if (!actions.empty() &&
      std::find(actions.begin(), actions.end(), record.entry.action) == actions.end()) {
    return false;
  }
  return begun.contains(record.begun_at);
}

AuditId AuditTrail::begin(const AuditEntry& entry, const CallOptions& call) {
  if (entry.actor.empty()) {
    throw Error(ErrorCode::invalid_argument, "an entry of the audit trail must name who acts");
  }
  const CallScope scope(call);
  return do_begin({.actor = clip_text(entry.actor, limits::kMaxActorBytes),
                   .action = entry.action,
                   .part = entry.part,
                   .subject = clip_text(entry.subject, limits::kMaxSubjectBytes),
                   .reason = clip_text(entry.reason, limits::kMaxReasonBytes)});
}

void AuditTrail::finish(AuditId id, const AuditResult& result, const CallOptions& call) {
  const CallScope scope(call);
  do_finish(id, {.status = result.status,
                 .changed = result.changed,
                 .detail = clip_text(result.detail, limits::kMaxErrorBytes)});
}

AuditPage AuditTrail::list(const AuditListRequest& request, const CallOptions& call) {
  require_in_range("list limit", request.limit, 1, limits::kMaxListItems);
  if (request.filter.actor) {
    require_in_range("length of the actor", request.filter.actor->size(), 1,
                     limits::kMaxActorBytes);
  }
  require_cursor(request.after);
  const CallScope scope(call);
  return do_list(request);
}

std::size_t AuditTrail::cleanup(const AuditCleanupRequest& request, const CallOptions& call) {
  require_in_range("retention of the audit trail", request.retention, Duration{0},
                   limits::kMaxRetention);
  require_in_range("cleanup limit", request.limit, 1, limits::kMaxBatchItems);
  const CallScope scope(call);
  return do_cleanup(request);
}

AuditResult audit_result_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    const bool in_doubt = error.code() == ErrorCode::outcome_unknown;
    return {.status = in_doubt ? AuditStatus::unknown : AuditStatus::failed,
            .detail = error.what()};
  } catch (...) {
    // What it was, and what it got done, nobody can tell; its text may be anything.
    return {.status = AuditStatus::unknown, .detail = "an unexpected error"};
  }
}

void finish_quietly(AuditTrail& trail, AuditId id, const AuditResult& result) noexcept {
  try {
    trail.finish(id, result);
  } catch (const std::exception&) {
    // It stays without a result.
  }
}

}  // namespace oncebox
