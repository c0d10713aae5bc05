#pragma once

#include <cstddef>

namespace oncebox {

/// How often this thread has allocated so far. Works because the program replaces the global
/// operator new.
[[nodiscard]] std::size_t allocations_of_this_thread() noexcept;

/// The next allocation of any other thread throws `std::bad_alloc`.
void fail_next_allocation_of_others() noexcept;

}  // namespace oncebox
