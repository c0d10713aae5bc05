#pragma once

#include <cstddef>

namespace oncebox {

/// How often this thread has allocated so far. Works because the program replaces the global
/// operator new.
[[nodiscard]] std::size_t allocations_of_this_thread() noexcept;

}  // namespace oncebox
