#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oncebox/driver/message_state.hpp"
#include "oncebox/queue_operator.hpp"

/// The states of messages in SQL, for filters and statistics.
namespace oncebox::sql {

/// A state, and what is waited for, as one number.
[[nodiscard]] int number_of(const ShownState& shown) noexcept;
[[nodiscard]] ShownState shown_state_of(int number) noexcept;

/// How a store writes what decides about a state. `s` is the alias of the row with the stage.
struct StateColumns {
  std::string_view now;     ///< an expression for the time
  std::string_view due_at;  ///< the column
  std::string_view paused;  ///< a condition: the topic of the message is paused
};

/// An expression for the number of a row's state. It says in SQL what `shown_state` says in C++.
[[nodiscard]] std::string state_number(const StateColumns& columns);

/// Whether a filter asks for states, and not only for statuses.
[[nodiscard]] bool asks_for_states(const MessageFilter& filter) noexcept;

/// The condition under which a row is in one of the states that a filter asks for.
[[nodiscard]] std::string state_condition(const MessageFilter& filter, const StateColumns& columns);

/// The statuses of the messages that can match a filter; empty: any.
[[nodiscard]] std::vector<Status> wanted_statuses(const MessageFilter& filter);

}  // namespace oncebox::sql
