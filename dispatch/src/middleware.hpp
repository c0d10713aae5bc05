#pragma once

#include <span>

#include "async_calls.hpp"
#include "oncebox/dispatch/handlers.hpp"

namespace oncebox::dispatcher {

/// The registration of a handler that runs with all middleware for its kind around it. Around one
/// that holds no thread, `start_with` runs it.
[[nodiscard]] Handlers::Registration with_middleware(const Handlers::Registration& registration,
                                                     const Handlers& handlers);

/// Begins the call of a handler that holds no thread. What it throws ends the call.
void start_with(std::span<const AsyncMiddleware> around, AsyncHandler& handler,
                const AsyncCalls::CallPtr& call);

}  // namespace oncebox::dispatcher
