#include "fiber.hpp"

#include <cxxabi.h>

#include <bit>
#include <cstdint>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONCEBOX_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ONCEBOX_ADDRESS_SANITIZER
#endif

#ifdef ONCEBOX_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace oncebox::simulation {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;

void before_switch([[maybe_unused]] void** save_shadow, [[maybe_unused]] const void* bottom,
                   [[maybe_unused]] std::size_t size) {
#ifdef ONCEBOX_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(save_shadow, bottom, size);
#endif
}

void after_switch([[maybe_unused]] void* shadow, [[maybe_unused]] const void** old_bottom,
                  [[maybe_unused]] std::size_t* old_size) {
#ifdef ONCEBOX_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(shadow, old_bottom, old_size);
#endif
}

}  // namespace

Fiber::Fiber() : stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)) {}
Fiber::~Fiber() = default;

// A fiber that is suspended while it handles an exception must find it when it goes on. The layout
// is that of the Itanium C++ ABI, which gcc and clang share.
Fiber::Exceptions Fiber::exchange_exceptions(const Exceptions& other) noexcept {
  auto* const globals = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  return std::exchange(*globals, other);
}

void Fiber::start(std::function<void()> body) {
  body_ = std::move(body);
  has_ended_ = false;
  shadow_inside_ = nullptr;
  exceptions_inside_ = {};
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  // `makecontext` passes integers only.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<unsigned int>(self >> 32), static_cast<unsigned int>(self));
  switch_in();
}

void Fiber::enter(unsigned int high, unsigned int low) {
  const std::uintptr_t self = (std::uintptr_t{high} << 32) | low;
  std::bit_cast<Fiber*>(self)->run();
}

void Fiber::run() noexcept {
  after_switch(nullptr, &outside_bottom_, &outside_size_);
  body_();
  body_ = nullptr;
  has_ended_ = true;
  exceptions_inside_ = exchange_exceptions(exceptions_outside_);
  before_switch(nullptr, outside_bottom_, outside_size_);  // null: this stack is done with
  setcontext(&outside_);
}

void Fiber::resume() { switch_in(); }
void Fiber::suspend() { switch_out(); }

void Fiber::switch_in() {
  exceptions_outside_ = exchange_exceptions(exceptions_inside_);
  before_switch(&shadow_outside_, stack_.get(), kStackBytes);
  swapcontext(&outside_, &inside_);
  after_switch(shadow_outside_, nullptr, nullptr);
}

void Fiber::switch_out() {
  exceptions_inside_ = exchange_exceptions(exceptions_outside_);
  before_switch(&shadow_inside_, outside_bottom_, outside_size_);
  swapcontext(&inside_, &outside_);
  after_switch(shadow_inside_, &outside_bottom_, &outside_size_);
}

void LeaksExpected::begin() {
#ifdef ONCEBOX_ADDRESS_SANITIZER
  __lsan_disable();
#endif
}

void LeaksExpected::end() {
#ifdef ONCEBOX_ADDRESS_SANITIZER
  __lsan_enable();
#endif
}

}  // namespace oncebox::simulation
