#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <variant>
#include <vector>

#include "model_vocabulary.hpp"
#include "oncebox/conformance/fixture.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_types.hpp"

/// The operations of the random test of the queues: plain data that a generator can make and
/// shrink. Places refer to `vocabulary`. Times are relative to the moment at which the operation
/// runs, and deliveries are named by how long ago they were claimed, so that a sequence from which
/// steps were taken out still means something.
namespace oncebox::conformance {

/// A place in `vocabulary::key`; places past its end mean the latest messages put in quarantine.
using KeyPlace = std::size_t;

/// A time as a distance from now; nothing: no time.
using FromNow = std::optional<Duration>;

struct MessageDraft {
  KeyPlace key = 0;
  std::size_t topic = 0;
  std::size_t payload = 0;
  std::size_t headers = 0;
  vocabulary::HashChoice hash = vocabulary::HashChoice::none;
  std::size_t priority = 0;
  std::size_t partition = 0;
  FromNow due;
  FromNow expires;
};

struct EnqueueStep {
  std::vector<MessageDraft> messages;
  HashMismatchPolicy on_hash_mismatch = HashMismatchPolicy::warn;
  DeadPolicy on_dead = DeadPolicy::keep;
};

struct ObservationDraft {
  KeyPlace key = 0;
  vocabulary::HashChoice hash = vocabulary::HashChoice::none;
  std::size_t payload = 0;
};

struct ObserveStep {
  std::vector<ObservationDraft> observations;
};

struct MarkDraft {
  KeyPlace key = 0;
  MarkAs as = MarkAs::processed;
  std::size_t error = 0;
};

struct MarkStep {
  std::vector<MarkDraft> marks;
};

struct ClaimStep {
  std::size_t owner = 0;
  Duration lease{1};
  std::size_t limit = 1;
  std::size_t max_bytes = 1;
  std::size_t topics = 0;
};

enum class Fence { exact, owner_only, wrong_number, foreign_owner, foreign_owner_only };

/// The delivery that was claimed `back` claims before the latest, counting all of this run or only
/// those whose lease nobody has ended. When there is none: one that nobody ever had.
struct DeliveryRef {
  bool only_held = false;
  std::size_t back = 0;
  Fence fence = Fence::exact;
};

enum class VerdictKind { ack, abandon, fail, release };

struct SettlementDraft {
  DeliveryRef delivery;
  VerdictKind verdict = VerdictKind::ack;
  std::size_t error = 0;                   ///< for abandon and fail
  FromNow delay;                           ///< for abandon and release
  std::optional<AttemptLimit> limit = {};  ///< for abandon
  bool untried = false;                    ///< for fail
};

struct SettleStep {
  std::vector<SettlementDraft> settlements;
};

struct ExtensionDraft {
  DeliveryRef delivery;
  Duration lease{1};
};

struct ExtendStep {
  std::vector<ExtensionDraft> extensions;
};

/// Calls `reap` until it says that nothing is left.
struct ReapStep {
  std::size_t limit = 1;
};

struct FindStep {
  std::vector<KeyPlace> keys;
};

struct FilterDraft {
  std::vector<Status> statuses;
  std::vector<State> states;
  std::vector<WaitingFor> waiting_for;
  std::optional<std::size_t> topic;
  std::optional<KeyPlace> source_of;
  std::optional<KeyPlace> id_of;
  std::size_t partition = 0;
  std::size_t error = 0;  ///< the first: no condition
  FromNow seen_from;
  FromNow seen_until;
  FromNow finished_from;
  FromNow finished_until;
};

/// Follows the pages to the end.
struct ListStep {
  FilterDraft filter;
  ListOrder order = ListOrder::oldest_first;
  ListPayloads payloads = ListPayloads::omit;
  std::size_t page = 1;
};

struct CountStep {
  FilterDraft filter;
};

struct StatsStep {};

struct ReviveStep {
  std::vector<KeyPlace> keys;
  Duration delay{0};
  std::size_t reason = 0;
};

struct EditDraft {
  KeyPlace key = 0;
  std::size_t payload = 0;
};

struct EditStep {
  std::vector<EditDraft> edits;
  Duration delay{0};
  std::size_t reason = 0;
};

struct ReviveMatchingStep {
  FilterDraft filter;
  Duration delay{0};
  std::size_t reason = 0;
  std::size_t limit = 1;
};

enum class ActionKind { cancel, run_now, reschedule, remove };

struct ActStep {
  std::vector<KeyPlace> keys;
  ActionKind action = ActionKind::cancel;
  Duration due{0};  ///< of a reschedule, from now
  std::size_t reason = 0;
  FilterDraft only;  ///< without conditions: all of the keys
};

struct ActMatchingStep {
  FilterDraft filter;
  ActionKind action = ActionKind::cancel;
  Duration due{0};
  std::size_t reason = 0;
  std::size_t limit = 1;
};

struct PurgeStep {
  std::vector<KeyPlace> keys;
};

struct PurgeMatchingStep {
  FilterDraft filter;
  std::size_t limit = 1;
};

/// Calls `cleanup` until it says that nothing is left.
struct CleanupStep {
  Duration done_retention{0};
  std::optional<Duration> dead_retention;
  std::size_t limit = 1;
};

struct AdvanceStep {
  Duration by{1};
};

/// Destroys the handle and opens the space again.
struct ReopenStep {};

using QueueOperation =
    std::variant<EnqueueStep, ObserveStep, MarkStep, ClaimStep, SettleStep, ExtendStep, ReapStep,
                 FindStep, ListStep, CountStep, StatsStep, ReviveStep, EditStep, ReviveMatchingStep,
                 ActStep, ActMatchingStep, PurgeStep, PurgeMatchingStep, CleanupStep, AdvanceStep,
                 ReopenStep>;

struct QueueStep {
  QueueOperation operation;
  QueueKind queue = QueueKind::inbox;
  std::size_t handle = 0;  ///< which of the two handles on the space makes the call
};

struct QueueSequence {
  int max_deliveries = 1;  ///< of every claim and every reap
  std::vector<QueueStep> steps;
};

std::ostream& operator<<(std::ostream& out, const QueueStep& step);
std::ostream& operator<<(std::ostream& out, const QueueSequence& sequence);

}  // namespace oncebox::conformance
