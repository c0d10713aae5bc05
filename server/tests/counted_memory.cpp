#include "counted_memory.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> allocated = 0;
std::atomic<std::size_t> most = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                           ? std::malloc(size == 0 ? 1 : size)
                           : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t bytes = malloc_usable_size(memory);
  const std::size_t now = allocated.fetch_add(bytes) + bytes;
  std::size_t known = most.load();
  while (now > known && !most.compare_exchange_weak(known, now)) continue;
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) allocated -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace oncebox {

std::size_t allocated_bytes() noexcept { return allocated; }
std::size_t most_allocated_bytes() noexcept { return most; }
void forget_most_allocated() noexcept { most = allocated.load(); }

}  // namespace oncebox
