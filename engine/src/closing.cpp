#include "oncebox/engine/closing.hpp"

namespace oncebox::engine {

namespace {

constexpr StoreCalls::Options kOptions{
    .limits = {.per_server = 2, .in_all = 4, .hangs_after = std::chrono::seconds{5}},
    .threads = 32,
    .threads_kept = 1};

}  // namespace

Closing::Closing(const Clock& clock) : calls_(kOptions, clock) {}

Closing::~Closing() {
  {
    const detail::Lock lock(mutex_);
    while (alive_ > 0) none_is_alive_.wait(mutex_);
  }
  calls_.stop();
}

Closing::Alive::Alive(Closing& closing) : closing_(closing) {
  const detail::Lock lock(closing_.mutex_);
  ++closing_.alive_;
}

// Told under the lock: the last one lets the destructor go on.
Closing::Alive::~Alive() {
  const detail::Lock lock(closing_.mutex_);
  if (--closing_.alive_ == 0) closing_.none_is_alive_.notify_all();
}

}  // namespace oncebox::engine
