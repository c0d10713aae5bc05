#pragma once

#include "oncebox/dispatch/handlers.hpp"

namespace oncebox::dispatcher {

/// The registration of a handler that runs with all middleware around it.
[[nodiscard]] Handlers::Registration with_middleware(const Handlers::Registration& registration,
                                                     const std::vector<Middleware>& middleware);

}  // namespace oncebox::dispatcher
