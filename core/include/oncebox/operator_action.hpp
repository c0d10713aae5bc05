#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "oncebox/clock.hpp"
#include "oncebox/message.hpp"

/// What an operator can do with messages, one by one or all that match; see `QueueOperator::act`.
namespace oncebox {

/// Ends an unfinished message: it is dead with the error "cancelled" and the reason. When a worker
/// has it, the worker's settlement is `lease_lost`.
struct Cancel {};

/// Lets a message be claimed now that waits for its due time or its backoff. It is due now, or
/// stays due since when it was. One that stands behind another of its partition stays there.
struct RunNow {};

/// Gives an unfinished message that no worker has another due time. It waits for that one alone: a
/// backoff ends. A time in the past means now. A message that expires before that time, or at it,
/// is left as it is.
struct Reschedule {
  TimePoint due_at{};
};

/// Removes a message that no worker has, whatever its state, and with it the memory of its key and
/// its past contents: a sender that repeats it is heard again.
struct Delete {};

/// The same for dead messages only.
struct Purge {};

using OperatorAction = std::variant<Cancel, RunNow, Reschedule, Delete, Purge>;

/// "cancel", "run_now", "reschedule", "delete" or "purge".
[[nodiscard]] std::string_view name_of(const OperatorAction& action) noexcept;

/// Whether an action changes messages in this state.
[[nodiscard]] bool applies_to(const OperatorAction& action, State state,
                              std::optional<WaitingFor> waits_for) noexcept;

/// Whether this is a reschedule to a time at which a message with this expiry is dead.
[[nodiscard]] bool expires_before(const OperatorAction& action,
                                  const std::optional<TimePoint>& expires_at) noexcept;

/// Whether an action would change this message.
[[nodiscard]] bool applies_to(const OperatorAction& action, const MessageRecord& record) noexcept;

enum class ActOutcome {
  changed,
  /// The action does not apply to the message's state, or the message does not match
  /// `ActOptions::only`; nothing changed.
  refused,
  expires_first,  ///< a reschedule to when the message has expired; nothing changed
  unknown,        ///< no such key
};

[[nodiscard]] std::string_view to_string(ActOutcome outcome) noexcept;

}  // namespace oncebox
