#include "oncebox/conformance/print.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

namespace oncebox {

namespace {

constexpr std::size_t kMaxShownBytes = 80;

std::string shown(std::string_view bytes) {
  const std::string head = testing::PrintToString(std::string(bytes.substr(0, kMaxShownBytes)));
  if (bytes.size() <= kMaxShownBytes) return head;
  return head + "… (" + std::to_string(bytes.size()) + " bytes)";
}

std::string shown_text(const std::optional<std::string>& text) {
  return text ? shown(*text) : "none";
}

std::string shown_time(const std::optional<TimePoint>& time) {
  return time ? format_rfc3339(*time) : "none";
}

template <class T>
std::string printed(const std::optional<T>& value) {
  return value ? testing::PrintToString(*value) : "none";
}

}  // namespace

void PrintTo(ErrorCode code, std::ostream* out) { *out << to_string(code); }

void PrintTo(Status status, std::ostream* out) { *out << to_string(status); }

void PrintTo(EnqueueStatus status, std::ostream* out) { *out << to_string(status); }

void PrintTo(ObservedState state, std::ostream* out) { *out << to_string(state); }

void PrintTo(MarkOutcome outcome, std::ostream* out) { *out << to_string(outcome); }

void PrintTo(SettleStatus status, std::ostream* out) { *out << to_string(status); }
void PrintTo(const SettleOutcome& outcome, std::ostream* out) {
  *out << to_string(outcome.status);
  if (outcome.again_at) *out << ", again at " << shown_time(outcome.again_at);
  if (outcome.death) *out << ", dead: " << to_string(*outcome.death);
}

void PrintTo(HealthStatus status, std::ostream* out) { *out << to_string(status); }

void PrintTo(KeyStatus status, std::ostream* out) { *out << to_string(status); }

void PrintTo(BeginStatus status, std::ostream* out) { *out << to_string(status); }

void PrintTo(ReviveOutcome outcome, std::ostream* out) {
  switch (outcome) {
    case ReviveOutcome::revived:
      *out << "revived";
      return;
    case ReviveOutcome::not_dead:
      *out << "not_dead";
      return;
    case ReviveOutcome::unknown:
      *out << "unknown";
      return;
    case ReviveOutcome::no_content:
      *out << "no_content";
      return;
  }
}

void PrintTo(PurgeOutcome outcome, std::ostream* out) {
  switch (outcome) {
    case PurgeOutcome::purged:
      *out << "purged";
      return;
    case PurgeOutcome::not_dead:
      *out << "not_dead";
      return;
    case PurgeOutcome::unknown:
      *out << "unknown";
      return;
  }
}

void PrintTo(CompleteOutcome outcome, std::ostream* out) {
  *out << (outcome == CompleteOutcome::processed ? "processed" : "lease_lost");
}

void PrintTo(FailOutcome outcome, std::ostream* out) {
  *out << (outcome == FailOutcome::failed ? "failed" : "lease_lost");
}

void PrintTo(ReleaseOutcome outcome, std::ostream* out) {
  switch (outcome) {
    case ReleaseOutcome::released:
      *out << "released";
      return;
    case ReleaseOutcome::lease_lost:
      *out << "lease_lost";
      return;
    case ReleaseOutcome::processed:
      *out << "processed";
      return;
    case ReleaseOutcome::unknown:
      *out << "unknown";
      return;
  }
}

void PrintTo(DeliveryNumber number, std::ostream* out) {
  *out << '#' << static_cast<std::uint64_t>(number);
}

void PrintTo(const OwnerToken& owner, std::ostream* out) { *out << owner.to_string(); }

void PrintTo(const LeaseId& lease_id, std::ostream* out) { *out << lease_id.to_string(); }

void PrintTo(const ContentHash& hash, std::ostream* out) {
  *out << hash.algorithm() << ':' << hash.digest_hex();
}

void PrintTo(const Payload& payload, std::ostream* out) { *out << shown(payload.bytes()); }

void PrintTo(const Message& message, std::ostream* out) {
  *out << "{key " << message.key << ", topic " << message.topic << ", payload "
       << shown(message.payload.bytes()) << ", headers";
  for (const auto& [name, value] : message.headers) *out << ' ' << name << '=' << shown(value);
  *out << ", hash " << printed(message.hash) << ", priority " << message.priority.value()
       << ", partition " << printed(message.partition_key) << ", due " << shown_time(message.due_at)
       << ", expires " << shown_time(message.expires_at) << '}';
}

void PrintTo(const MessageHistory& history, std::ostream* out) {
  *out << "{attempt " << history.attempt << ", deliveries " << history.deliveries << ", lapses "
       << history.lapses << ", duplicates " << history.duplicates << ", content version "
       << history.content_version << ", first seen " << format_rfc3339(history.first_seen_at)
       << ", last seen " << format_rfc3339(history.last_seen_at) << ", last error "
       << shown_text(history.last_error) << '}';
}

void PrintTo(const PastContent& past, std::ostream* out) {
  *out << "{content version " << past.content_version << ", payload " << shown(past.payload.bytes())
       << ", hash " << printed(past.hash) << ", replaced " << format_rfc3339(past.replaced_at)
       << " by " << shown(past.replaced_by) << " because " << shown(past.reason) << '}';
}

void PrintTo(const AuditResult& result, std::ostream* out) {
  *out << '{' << to_string(result.status) << ", changed " << result.changed << ", detail "
       << shown(result.detail) << '}';
}

void PrintTo(const AuditRecord& record, std::ostream* out) {
  *out << '{' << static_cast<std::uint64_t>(record.id) << ' ' << shown(record.entry.actor) << ' '
       << to_string(record.entry.action) << ' ' << to_string(record.entry.part) << ", subject "
       << shown(record.entry.subject) << ", reason " << shown(record.entry.reason) << ", begun "
       << format_rfc3339(record.begun_at) << ", finished " << shown_time(record.finished_at)
       << ", result " << printed(record.result) << '}';
}

void PrintTo(const Attempt& attempt, std::ostream* out) {
  *out << "{number " << attempt.number << ' ' << to_string(attempt.outcome) << ", worker "
       << (attempt.worker ? attempt.worker->str() : "none") << ", begun "
       << shown_time(attempt.begun_at) << ", ended " << format_rfc3339(attempt.ended_at)
       << ", error " << shown(attempt.error_kind) << ' ' << shown(attempt.error) << '}';
}

void PrintTo(const AttemptLimit& limit, std::ostream* out) {
  *out << limit.max_attempts << " attempts";
  if (limit.give_up_after) *out << " and " << limit.give_up_after->count() << " ms";
}

void PrintTo(const MessageRecord& record, std::ostream* out) {
  *out << "\n  {" << record.key << ' ' << to_string(record.status) << ", state "
       << to_string(record.state);
  if (record.waiting_for) *out << " for " << to_string(*record.waiting_for);
  *out << ", message " << printed(record.message) << ", hash " << printed(record.hash)
       << ", history ";
  PrintTo(record.history, out);
  if (record.lease) {
    *out << ", lease of " << record.lease->owner.to_string() << ' ';
    if (record.lease->worker) *out << '(' << *record.lease->worker << ") ";
    if (record.lease->leased_at) *out << "from " << format_rfc3339(*record.lease->leased_at) << ' ';
    PrintTo(record.lease->delivery, out);
    *out << " until " << format_rfc3339(record.lease->locked_until);
  }
  *out << ", eligible " << shown_time(record.eligible_at) << ", finished "
       << shown_time(record.finished_at) << ", revivals " << record.revivals.count << " last "
       << shown_time(record.revivals.last_at) << " because "
       << shown_text(record.revivals.last_reason) << ", attempts "
       << testing::PrintToString(record.attempts) << '}';
}

void PrintTo(const ClaimedMessage& claimed, std::ostream* out) {
  *out << "\n  {";
  PrintTo(claimed.message, out);
  *out << ", history ";
  PrintTo(claimed.history, out);
  *out << ", owner " << claimed.owner.to_string() << ' ';
  PrintTo(claimed.delivery, out);
  *out << " until " << format_rfc3339(claimed.locked_until);
  if (claimed.revived_at) *out << ", revived at " << format_rfc3339(*claimed.revived_at);
  *out << ", limit " << printed(claimed.attempt_limit);
  *out << '}';
}

void PrintTo(const EnqueueOutcome& outcome, std::ostream* out) {
  *out << '{' << to_string(outcome.status);
  if (outcome.hash_mismatch) *out << ", hash mismatch";
  if (outcome.quarantined_as) *out << ", as " << *outcome.quarantined_as;
  if (outcome.newly_dead) *out << ", newly dead";
  *out << '}';
}

void PrintTo(const ObserveOutcome& outcome, std::ostream* out) {
  *out << '{' << to_string(outcome.state) << (outcome.hash_mismatch ? ", hash mismatch}" : "}");
}

void PrintTo(const ExtendOutcome& outcome, std::ostream* out) {
  *out << "{until " << shown_time(outcome.locked_until) << '}';
}

void PrintTo(const KeyExtendOutcome& outcome, std::ostream* out) {
  *out << "{until " << shown_time(outcome.lease_until) << '}';
}

void PrintTo(const Death& death, std::ostream* out) {
  *out << '{' << death.key << ' ' << death.topic << ": " << death.cause << '}';
}

void PrintTo(const ReapResult& result, std::ostream* out) {
  *out << "{released " << result.released << ", buried " << result.buried << ", deaths "
       << testing::PrintToString(result.deaths) << '}';
}

void PrintTo(const CleanupResult& result, std::ostream* out) {
  *out << "{done removed " << result.done_removed << ", dead removed " << result.dead_removed
       << '}';
}

void PrintTo(ActOutcome outcome, std::ostream* out) { *out << to_string(outcome); }

void PrintTo(const WaitingCounts& counts, std::ostream* out) {
  *out << "for content " << counts.content << ", partition " << counts.partition << ", due "
       << counts.due << ", backoff " << counts.backoff << ", pause " << counts.pause;
}

void PrintTo(const TopicStats& stats, std::ostream* out) {
  *out << "\n  {topic " << printed(stats.topic) << ": seen " << stats.seen << ", ready "
       << stats.ready << ", waiting ";
  PrintTo(stats.waiting, out);
  *out << ", leased " << stats.leased << ", done " << stats.done << ", dead " << stats.dead
       << ", oldest ready " << shown_time(stats.oldest_ready_at) << ", oldest dead "
       << shown_time(stats.oldest_dead_at) << '}';
}

void PrintTo(const KeyRecord& record, std::ostream* out) {
  *out << "\n  {" << record.key << ' ' << to_string(record.status) << ", attempts "
       << record.attempts << ", first seen " << format_rfc3339(record.first_seen_at)
       << ", last seen " << format_rfc3339(record.last_seen_at) << ", owner " << shown(record.owner)
       << ", leased until " << shown_time(record.lease_until) << ", kept until "
       << format_rfc3339(record.keep_until) << ", result " << shown_text(record.result)
       << ", error " << shown_text(record.error) << '}';
}

namespace conformance {

void PrintTo(const Moment& moment, std::ostream* out) { *out << shown_time(moment.time); }

}  // namespace conformance

}  // namespace oncebox
