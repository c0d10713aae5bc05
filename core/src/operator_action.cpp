#include "oncebox/operator_action.hpp"

#include <array>

namespace oncebox {

namespace {

/// Whether each action changes messages in a state.
struct Applies {
  State state;
  std::optional<WaitingFor> waits_for;

  [[nodiscard]] bool is_enqueued() const noexcept {
    return status_of(state) == Status::processing && waits_for != WaitingFor::content;
  }

  bool operator()(const Cancel&) const noexcept { return is_enqueued(); }
  bool operator()(const RunNow&) const noexcept {
    return waits_for == WaitingFor::due || waits_for == WaitingFor::backoff;
  }
  bool operator()(const Reschedule&) const noexcept {
    return is_enqueued() && state != State::leased;
  }
  bool operator()(const Delete&) const noexcept { return state != State::leased; }
  bool operator()(const Purge&) const noexcept { return state == State::dead; }
};

}  // namespace

std::string_view name_of(const OperatorAction& action) noexcept {
  constexpr std::array<std::string_view, std::variant_size_v<OperatorAction>> kNames{
      "cancel", "run_now", "reschedule", "delete", "purge"};
  return kNames[action.index()];
}

bool applies_to(const OperatorAction& action, State state,
                std::optional<WaitingFor> waits_for) noexcept {
  return std::visit(Applies{state, waits_for}, action);
}

bool expires_before(const OperatorAction& action,
                    const std::optional<TimePoint>& expires_at) noexcept {
  const auto* reschedule = std::get_if<Reschedule>(&action);
  return reschedule != nullptr && expires_at && *expires_at <= reschedule->due_at;
}

bool applies_to(const OperatorAction& action, const MessageRecord& record) noexcept {
  if (!applies_to(action, record.state, record.waiting_for)) return false;
  return !record.message || !expires_before(action, record.message->expires_at);
}

std::string_view to_string(ActOutcome outcome) noexcept {
  switch (outcome) {
    case ActOutcome::changed:
      return "changed";
    case ActOutcome::refused:
      return "refused";
    case ActOutcome::expires_first:
      return "expires_first";
    case ActOutcome::unknown:
      return "unknown";
  }
  return "unknown";
}

}  // namespace oncebox
