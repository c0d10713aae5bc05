#pragma once

#include <cstddef>

#include "http/connection.hpp"
#include "http/event_loop.hpp"
#include "http/memory_budget.hpp"

namespace oncebox::server {

/// Which connection of the loop gives its place to a new one of this address, when there are
/// `places` and all are taken; null: none does. To be called in the loop's thread.
///
/// First go those of other addresses that have more places, then the newcomer's own. Of these,
/// first those whose client has not finished the head of a request, then those that are idle, then
/// those whose client has not finished a body, then those whose client has not taken 64 KiB of its
/// answers within a second, and of each the one that has waited longest. A connection under a
/// second old, or whose answer is being made, stays. No address loses a place to one that has as
/// many, so an address that wants them all gets what the others leave. One that has more than a
/// quarter of all places loses also those that are new, but for readers.
[[nodiscard]] Connection* choose_to_give_way(const EventLoop& loop, const ClientAddress& newcomer,
                                             std::size_t places, SteadyTime now);

/// Whether the connections of the loop that might give way to it hold so many bytes of memory.
[[nodiscard]] bool can_give_way(const EventLoop& loop, const ClientAddress& newcomer,
                                std::size_t places, std::size_t bytes, SteadyTime now);

}  // namespace oncebox::server
