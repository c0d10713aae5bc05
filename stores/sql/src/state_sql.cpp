#include "oncebox/sql/state_sql.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace oncebox::sql {

namespace {

constexpr int kStateCount = static_cast<int>(std::size(kEveryState));

int number_of(State state) noexcept { return static_cast<int>(state); }
int number_of(WaitingFor what) noexcept { return kStateCount + static_cast<int>(what); }

// Stages stand as numbers, as in the other statements; see `Stage`.
constexpr std::string_view kStateNumber = R"sql(
CASE WHEN s.stage = 0 THEN {seen}
     WHEN s.stage = 4 THEN {done}
     WHEN s.stage = 5 THEN {dead}
     WHEN s.stage = 6 THEN {content}
     WHEN s.stage = 2 THEN {partition}
     WHEN s.stage = 3 AND s.locked_until > {now} THEN {leased}
     WHEN s.stage = 3 AND {due_at} > {now} THEN {due}
     WHEN s.stage <> 3 AND s.eligible_at > {now} AND s.backoff_until >= s.eligible_at THEN {backoff}
     WHEN s.stage <> 3 AND s.eligible_at > {now} THEN {due}
     WHEN {paused} THEN {pause}
     ELSE {ready} END)sql";

bool is_wanted(const MessageFilter& filter, State state) noexcept {
  if (state != State::waiting) return filter.wants(state, std::nullopt);
  return std::ranges::any_of(kEveryWaitingFor,
                             [&](WaitingFor what) { return filter.wants(state, what); });
}

}  // namespace

int number_of(const ShownState& shown) noexcept {
  return shown.waiting_for ? number_of(*shown.waiting_for) : number_of(shown.state);
}

ShownState shown_state_of(int number) noexcept {
  if (number < kStateCount) return {static_cast<State>(number)};
  return {State::waiting, static_cast<WaitingFor>(number - kStateCount)};
}

std::string state_number(const StateColumns& columns) {
  return fmt::format(
      fmt::runtime(kStateNumber), fmt::arg("now", columns.now), fmt::arg("due_at", columns.due_at),
      fmt::arg("paused", columns.paused), fmt::arg("seen", number_of(State::seen)),
      fmt::arg("ready", number_of(State::ready)), fmt::arg("leased", number_of(State::leased)),
      fmt::arg("done", number_of(State::done)), fmt::arg("dead", number_of(State::dead)),
      fmt::arg("content", number_of(WaitingFor::content)),
      fmt::arg("partition", number_of(WaitingFor::partition)),
      fmt::arg("due", number_of(WaitingFor::due)),
      fmt::arg("backoff", number_of(WaitingFor::backoff)),
      fmt::arg("pause", number_of(WaitingFor::pause)));
}

bool asks_for_states(const MessageFilter& filter) noexcept {
  return !filter.states.empty() || !filter.waiting_for.empty();
}

std::string state_condition(const MessageFilter& filter, const StateColumns& columns) {
  std::string numbers = "-1";  // there may be no state that satisfies both conditions
  for (const State state : kEveryState) {
    if (state != State::waiting && filter.wants(state, std::nullopt)) {
      numbers += fmt::format(", {}", number_of(state));
    }
  }
  for (const WaitingFor what : kEveryWaitingFor) {
    if (filter.wants(State::waiting, what)) numbers += fmt::format(", {}", number_of(what));
  }
  return fmt::format("{} IN ({})", state_number(columns), numbers);
}

std::vector<Status> wanted_statuses(const MessageFilter& filter) {
  if (!asks_for_states(filter)) return filter.statuses;
  std::vector<Status> statuses;
  for (const State state : kEveryState) {
    const Status status = status_of(state);
    if (is_wanted(filter, state) && std::ranges::find(statuses, status) == statuses.end()) {
      statuses.push_back(status);
    }
  }
  return statuses;
}

}  // namespace oncebox::sql
