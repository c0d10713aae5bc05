#include <array>
#include <string>
#include <string_view>

#include "model_queue_operations.hpp"
#include "model_text.hpp"
#include "oncebox/queue_types.hpp"

/// How the operations read in the report of a failure: close to the calls they stand for.
namespace oncebox::conformance {

namespace {

std::string shown_from_now(Duration distance) {
  if (distance == Duration{0}) return "now";
  return distance < Duration{0} ? "now-" + shown_duration(-distance)
                                : "now+" + shown_duration(distance);
}

std::string shown_key(KeyPlace place) {
  if (place < vocabulary::kKeys) return testing::PrintToString(vocabulary::key(place));
  return "quarantined[-" + std::to_string(place - vocabulary::kKeys + 1) + "]";
}

std::string_view name_of(vocabulary::HashChoice choice) {
  static constexpr std::array<std::string_view, vocabulary::kHashChoices> kNames{
      "none", "right", "wrong", "other-algorithm", "other-algorithm-wrong"};
  return kNames.at(static_cast<std::size_t>(choice));
}

std::string shown(const DeliveryRef& delivery) {
  static constexpr std::array<std::string_view, 5> kFences{
      "", " by owner alone", " with a wrong number", " by a foreign owner",
      " by a foreign owner without number"};
  return (delivery.only_held ? "held[-" : "claimed[-") + std::to_string(delivery.back + 1) + "]" +
         std::string(kFences.at(static_cast<std::size_t>(delivery.fence)));
}

std::string shown(const MessageDraft& draft) {
  std::string text = shown_key(draft.key) + " " + vocabulary::topic(draft.topic).str() +
                     " payload " + testing::PrintToString(vocabulary::payload(draft.payload));
  if (draft.headers > 0) text += " headers " + std::to_string(draft.headers);
  if (draft.hash != vocabulary::HashChoice::none)
    text += " hash " + std::string(name_of(draft.hash));
  if (draft.priority > 0) {
    text += " priority " + std::to_string(vocabulary::priority(draft.priority).value());
  }
  if (draft.partition > 0) text += " partition " + vocabulary::partition(draft.partition)->str();
  if (draft.due) text += " due " + shown_from_now(*draft.due);
  if (draft.expires) text += " expires " + shown_from_now(*draft.expires);
  return text;
}

std::string shown(const ObservationDraft& draft) {
  std::string text = shown_key(draft.key);
  if (draft.hash == vocabulary::HashChoice::none) return text;
  return text + " hash " + std::string(name_of(draft.hash)) + " for payload " +
         testing::PrintToString(vocabulary::payload(draft.payload));
}

std::string shown(const MarkDraft& draft) {
  static constexpr std::array<std::string_view, 3> kNames{"processing", "processed", "dead"};
  return shown_key(draft.key) + " " + std::string(kNames.at(static_cast<std::size_t>(draft.as))) +
         " error " + shown_error(draft.error);
}

std::string shown_delay(const FromNow& delay) {
  return delay ? " delay " + shown_duration(*delay) : "";
}

std::string shown_limit(const std::optional<AttemptLimit>& limit) {
  if (!limit) return "";
  const std::string attempts = " at most " + std::to_string(limit->max_attempts) + " attempts";
  if (!limit->give_up_after) return attempts;
  return attempts + " and " + shown_duration(*limit->give_up_after);
}

std::string shown(const SettlementDraft& draft) {
  const std::string delivery = shown(draft.delivery);
  switch (draft.verdict) {
    case VerdictKind::ack:
      return "ack " + delivery;
    case VerdictKind::abandon:
      return "abandon " + delivery + " error " + shown_error(draft.error) +
             shown_delay(draft.delay) + shown_limit(draft.limit);
    case VerdictKind::fail:
      return "fail " + delivery + " error " + shown_error(draft.error) +
             (draft.untried ? " untried" : "");
    case VerdictKind::release:
      return "release " + delivery + shown_delay(draft.delay);
  }
  return delivery;
}

std::string shown(const ExtensionDraft& draft) {
  return shown(draft.delivery) + " lease " + shown_duration(draft.lease);
}

std::string shown(const FilterDraft& filter) {
  std::string text;
  for (const Status status : filter.statuses) text += " " + std::string(to_string(status));
  for (const State state : filter.states) text += " state " + std::string(to_string(state));
  for (const WaitingFor what : filter.waiting_for) {
    text += " waiting for " + std::string(to_string(what));
  }
  if (filter.topic) text += " topic " + vocabulary::topic_pattern(*filter.topic).str();
  if (filter.source_of) text += " source " + vocabulary::key(*filter.source_of).source.str();
  if (filter.id_of) text += " id " + vocabulary::key(*filter.id_of).message_id.str();
  if (filter.partition > 0) text += " partition " + vocabulary::partition(filter.partition)->str();
  if (filter.error > 0) text += " error with " + shown_error(filter.error);
  if (filter.seen_from) text += " seen from " + shown_from_now(*filter.seen_from);
  if (filter.seen_until) text += " seen until " + shown_from_now(*filter.seen_until);
  if (filter.finished_from) text += " finished from " + shown_from_now(*filter.finished_from);
  if (filter.finished_until) text += " finished until " + shown_from_now(*filter.finished_until);
  return text.empty() ? " everything" : text;
}

/// So that the overloads above can be passed on.
constexpr auto show = [](const auto& draft) { return shown(draft); };

std::string shown_keys(const std::vector<KeyPlace>& keys) {
  std::string text;
  for (const KeyPlace key : keys) text += " " + shown_key(key);
  return text;
}

std::string shown_topics(std::size_t place) {
  const TopicSelection topics = vocabulary::topic_selection(place);
  std::string text;
  for (const TopicPattern& pattern : topics.only) text += " only " + pattern.str();
  for (const TopicPattern& pattern : topics.except) text += " except " + pattern.str();
  return text;
}

std::string shown_revival(Duration delay, std::size_t reason) {
  return " delay " + shown_duration(delay) + " reason " +
         testing::PrintToString(vocabulary::reason(reason));
}

std::string shown_action(ActionKind kind, Duration due) {
  static constexpr std::array<std::string_view, 4> kNames{"cancel", "run now", "reschedule",
                                                          "delete"};
  std::string text(kNames.at(static_cast<std::size_t>(kind)));
  if (kind == ActionKind::reschedule) text += " to " + shown_from_now(due);
  return text;
}

struct Printer {
  std::string operator()(const EnqueueStep& step) const {
    static constexpr std::array<std::string_view, 4> kPolicies{
        "", " (reject mismatch)", " (quarantine mismatch)", " (keep first)"};
    return "enqueue" + std::string(kPolicies.at(static_cast<std::size_t>(step.on_hash_mismatch))) +
           (step.on_dead == DeadPolicy::revive ? " (revive dead)" : "") + ": " +
           joined(step.messages, show);
  }
  std::string operator()(const ObserveStep& step) const {
    return "observe: " + joined(step.observations, show);
  }
  std::string operator()(const MarkStep& step) const { return "mark: " + joined(step.marks, show); }
  std::string operator()(const ClaimStep& step) const {
    return "claim as owner " + std::to_string(step.owner) + ", lease " +
           shown_duration(step.lease) + ", limit " + std::to_string(step.limit) + ", at most " +
           std::to_string(step.max_bytes) + " bytes" + shown_topics(step.topics);
  }
  std::string operator()(const SettleStep& step) const {
    return "settle: " + joined(step.settlements, show);
  }
  std::string operator()(const ExtendStep& step) const {
    return "extend: " + joined(step.extensions, show);
  }
  std::string operator()(const ReapStep& step) const {
    return "reap all, limit " + std::to_string(step.limit);
  }
  std::string operator()(const FindStep& step) const { return "find" + shown_keys(step.keys); }
  std::string operator()(const ListStep& step) const {
    return "list" + shown(step.filter) +
           (step.order == ListOrder::newest_first ? ", newest first" : ", oldest first") +
           (step.payloads == ListPayloads::include ? ", with payloads" : "") + ", pages of " +
           std::to_string(step.page);
  }
  std::string operator()(const CountStep& step) const { return "count" + shown(step.filter); }
  std::string operator()(const StatsStep&) const { return "stats"; }
  std::string operator()(const ReviveStep& step) const {
    return "revive" + shown_keys(step.keys) + shown_revival(step.delay, step.reason);
  }
  std::string operator()(const EditStep& step) const {
    std::string text = "revive edited";
    for (const EditDraft& edit : step.edits) {
      text += " " + shown_key(edit.key) + " to payload " + std::to_string(edit.payload);
    }
    return text + shown_revival(step.delay, step.reason);
  }
  std::string operator()(const ReviveMatchingStep& step) const {
    return "revive matching" + shown(step.filter) + shown_revival(step.delay, step.reason) +
           " limit " + std::to_string(step.limit);
  }
  std::string operator()(const ActStep& step) const {
    return shown_action(step.action, step.due) + shown_keys(step.keys) + " reason " +
           testing::PrintToString(vocabulary::reason(step.reason)) + " only" + shown(step.only);
  }
  std::string operator()(const ActMatchingStep& step) const {
    return shown_action(step.action, step.due) + " matching" + shown(step.filter) + " reason " +
           testing::PrintToString(vocabulary::reason(step.reason)) + " limit " +
           std::to_string(step.limit);
  }
  std::string operator()(const PurgeStep& step) const { return "purge" + shown_keys(step.keys); }
  std::string operator()(const PurgeMatchingStep& step) const {
    return "purge matching" + shown(step.filter) + " limit " + std::to_string(step.limit);
  }
  std::string operator()(const CleanupStep& step) const {
    return "cleanup all, done after " + shown_duration(step.done_retention) +
           (step.dead_retention ? ", dead after " + shown_duration(*step.dead_retention) : "") +
           ", limit " + std::to_string(step.limit);
  }
  std::string operator()(const AdvanceStep& step) const {
    return "advance " + shown_duration(step.by);
  }
  std::string operator()(const ReopenStep&) const { return "reopen"; }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const QueueStep& step) {
  if (std::holds_alternative<AdvanceStep>(step.operation)) {
    return out << std::visit(Printer{}, step.operation);
  }
  return out << to_string(step.queue) << ", handle " << step.handle << ": "
             << std::visit(Printer{}, step.operation);
}

std::ostream& operator<<(std::ostream& out, const QueueSequence& sequence) {
  out << sequence.steps.size() << " steps with max_deliveries " << sequence.max_deliveries << ":";
  print_steps(out, sequence.steps);
  return out;
}

}  // namespace oncebox::conformance
