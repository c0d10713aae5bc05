#include "counted_allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

namespace {

thread_local std::size_t allocations = 0;
std::atomic<bool> fails_next = false;
std::atomic<std::thread::id> spared;

void* allocate(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (fails_next && spared.load() != std::this_thread::get_id() && fails_next.exchange(false)) {
    throw std::bad_alloc();
  }
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                           ? std::malloc(size == 0 ? 1 : size)
                           : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace oncebox {

std::size_t allocations_of_this_thread() noexcept { return allocations; }

void fail_next_allocation_of_others() noexcept {
  spared = std::this_thread::get_id();
  fails_next = true;
}

}  // namespace oncebox
