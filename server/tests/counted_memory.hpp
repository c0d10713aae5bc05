#pragma once

#include <cstddef>

/// A program that has `counted_memory.cpp` counts what it gets by operator new, on all threads.
namespace oncebox {

/// What is allocated now.
[[nodiscard]] std::size_t allocated_bytes() noexcept;
/// The most that was allocated at any time since the last `forget_most_allocated`.
[[nodiscard]] std::size_t most_allocated_bytes() noexcept;
void forget_most_allocated() noexcept;

/// How much more than before is allocated at most while this is called.
template <class Call>
[[nodiscard]] std::size_t bytes_needed_for(Call call) {
  const std::size_t before = allocated_bytes();
  forget_most_allocated();
  call();
  return most_allocated_bytes() - before;
}

}  // namespace oncebox
