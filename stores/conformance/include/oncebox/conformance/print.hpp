#pragma once

#include <iosfwd>
#include <optional>

#include "oncebox/error.hpp"
#include "oncebox/store.hpp"

/// How GoogleTest shows our types when an expectation fails. Include it wherever such a type is
/// compared, so that every file of a test program prints it alike.
namespace oncebox {

void PrintTo(ErrorCode code, std::ostream* out);
void PrintTo(Status status, std::ostream* out);
void PrintTo(EnqueueStatus status, std::ostream* out);
void PrintTo(ObservedState state, std::ostream* out);
void PrintTo(MarkOutcome outcome, std::ostream* out);
void PrintTo(SettleStatus status, std::ostream* out);
void PrintTo(const SettleOutcome& outcome, std::ostream* out);
void PrintTo(ReviveOutcome outcome, std::ostream* out);
void PrintTo(PurgeOutcome outcome, std::ostream* out);
void PrintTo(HealthStatus status, std::ostream* out);
void PrintTo(DeliveryNumber number, std::ostream* out);
void PrintTo(const OwnerToken& owner, std::ostream* out);
void PrintTo(const ContentHash& hash, std::ostream* out);
void PrintTo(const Payload& payload, std::ostream* out);
void PrintTo(const Message& message, std::ostream* out);
void PrintTo(const MessageHistory& history, std::ostream* out);
void PrintTo(const PastContent& past, std::ostream* out);
void PrintTo(const AuditResult& result, std::ostream* out);
void PrintTo(const AuditRecord& record, std::ostream* out);
void PrintTo(const Attempt& attempt, std::ostream* out);
void PrintTo(const AttemptLimit& limit, std::ostream* out);
void PrintTo(const MessageRecord& record, std::ostream* out);
void PrintTo(const ClaimedMessage& claimed, std::ostream* out);
void PrintTo(const EnqueueOutcome& outcome, std::ostream* out);
void PrintTo(const ObserveOutcome& outcome, std::ostream* out);
void PrintTo(const ExtendOutcome& outcome, std::ostream* out);
void PrintTo(const Death& death, std::ostream* out);
void PrintTo(const ReapResult& result, std::ostream* out);
void PrintTo(const CleanupResult& result, std::ostream* out);
void PrintTo(ActOutcome outcome, std::ostream* out);
void PrintTo(const WaitingCounts& counts, std::ostream* out);
void PrintTo(const TopicStats& stats, std::ostream* out);

void PrintTo(KeyStatus status, std::ostream* out);
void PrintTo(BeginStatus status, std::ostream* out);
void PrintTo(CompleteOutcome outcome, std::ostream* out);
void PrintTo(FailOutcome outcome, std::ostream* out);
void PrintTo(ReleaseOutcome outcome, std::ostream* out);
void PrintTo(const LeaseId& lease_id, std::ostream* out);
void PrintTo(const KeyExtendOutcome& outcome, std::ostream* out);
void PrintTo(const KeyRecord& record, std::ostream* out);

namespace conformance {

/// A time, or none, that prints readably: `EXPECT_EQ(at(record.eligible_at), at(now() + 5s))`.
struct Moment {
  std::optional<TimePoint> time;

  friend bool operator==(const Moment&, const Moment&) = default;
};

void PrintTo(const Moment& moment, std::ostream* out);

[[nodiscard]] inline Moment at(std::optional<TimePoint> time) { return {time}; }

inline constexpr Moment kNever{};

}  // namespace conformance

}  // namespace oncebox
