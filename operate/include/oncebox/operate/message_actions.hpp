#pragma once

#include <cstddef>

#include "oncebox/operate/dead_groups.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox {

/// Does something with up to `limit` messages that match a filter and to which it applies, oldest
/// first, in slices of one transaction each, and tells how many. Each message is met once, though
/// it may match again afterwards. One that has come to another state since it was listed is left
/// alone: it has to match in the transaction that changes it. Throws what the store throws; when
/// some were changed before, as `outcome_unknown` with their number. Works on every store; also
/// over HTTP.
std::size_t act_on_all(QueueOperator& queue, const MessageFilter& filter,
                       const OperatorAction& action, std::size_t limit,
                       const ActOptions& options = {}, const KeepGoing& keep_going = {});

}  // namespace oncebox
