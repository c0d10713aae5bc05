#pragma once

#include <functional>

#include "oncebox/dead_group.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox {

/// Asked before each page that is read, and between two slices that are changed; false ends the
/// work early. May be empty.
using KeepGoing = std::function<bool()>;

/// Walks over the dead that match, page by page and without their payloads, so it works on every
/// store; also over HTTP. One that ends early tells what it has met, and is not complete. Changes
/// nothing. Throws `out_of_range` for bounds of 0 or too large ones.
[[nodiscard]] DeadGroups group_dead(QueueOperator& queue, const DeadGroupsRequest& request = {},
                                    const KeepGoing& keep_going = {});

}  // namespace oncebox
