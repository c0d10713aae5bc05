#pragma once

#include <cstddef>

#include "oncebox/dispatch/dispatcher.hpp"

namespace oncebox::dispatcher {

/// The options, checked, with nothing left open but `reap_interval`, and with the retries of the
/// handlers.
[[nodiscard]] DispatcherOptions effective(DispatcherOptions options, const Handlers& handlers);

/// With the name of an outbox, unless they have one.
[[nodiscard]] DispatcherOptions for_outbox(DispatcherOptions options);

/// What of one store waits, runs, and gathers for the next settlements, at most.
[[nodiscard]] std::size_t in_flight_capacity(const DispatcherOptions& options);

}  // namespace oncebox::dispatcher
