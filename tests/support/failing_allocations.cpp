#include "failing_allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

constexpr int kNever = -1;
thread_local int allocations_until_failure = kNever;

void* allocate(std::size_t size, std::size_t alignment) {
  if (allocations_until_failure == 0) throw std::bad_alloc();
  if (allocations_until_failure > 0) --allocations_until_failure;
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

FailingAllocation::FailingAllocation(int countdown) { allocations_until_failure = countdown; }
FailingAllocation::~FailingAllocation() { allocations_until_failure = kNever; }

}  // namespace oncebox
