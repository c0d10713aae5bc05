#include "api/heap_trimmer.hpp"

#include <malloc.h>

#include <algorithm>
#include <utility>

namespace oncebox::server {

HeapTrimmer::HeapTrimmer(std::function<std::size_t()> held, const Clock& clock)
    : held_(std::move(held)),
      clock_(clock),
      timers_(clock),
      timer_(timers_.add([this] { look(); })) {
  timer_.want_at(clock_.steady() + kInterval);
}

void HeapTrimmer::look() {
  const std::size_t held = held_();
  highest_ = std::max(highest_, held);
  if (highest_ - held >= kWorthTrimmingBytes) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    highest_ = held;
  }
  timer_.want_at(clock_.steady() + kInterval);
}

}  // namespace oncebox::server
