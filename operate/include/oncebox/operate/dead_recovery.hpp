#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/dead_query.hpp"
#include "oncebox/message.hpp"
#include "oncebox/operate/dead_groups.hpp"
#include "oncebox/queue_operator.hpp"

/// Bringing back, or removing, many dead messages: of a group or of a filter, in slices of one
/// transaction each. Nothing of it needs a thread or outlives the call, so a crash leaves what was
/// done so far and nothing else. Works on every store; also over HTTP.
namespace oncebox {

/// Revives them. Throws what the store throws; when some were revived before, as `outcome_unknown`
/// with their number.
RevivalResult revive_dead(QueueOperator& queue, const DeadQuery& which,
                          const ReviveOptions& options = {}, const RevivalPace& pace = {},
                          const KeepGoing& keep_going = {});
/// The same for these keys, one outcome for each. Those that are not dead take no place in time.
std::vector<ReviveOutcome> revive_keys(QueueOperator& queue, std::span<const MessageKey> keys,
                                       const ReviveOptions& options, const RevivalPace& pace);

/// What `revive_dead` would do now. One that ends early tells of those that it has met.
[[nodiscard]] RevivalResult plan_revival(QueueOperator& queue, const DeadQuery& which,
                                         const ReviveOptions& options = {},
                                         const RevivalPace& pace = {},
                                         const KeepGoing& keep_going = {});

/// Removes them, and tells how many they were. Throws as `revive_dead` does.
std::size_t purge_dead(QueueOperator& queue, const DeadQuery& which,
                       const PurgeOptions& options = {}, const KeepGoing& keep_going = {});

/// How many are meant now. One that ends early tells how many it has met.
[[nodiscard]] std::size_t count_dead(QueueOperator& queue, const DeadQuery& which,
                                     const KeepGoing& keep_going = {});

}  // namespace oncebox
