#include "oncebox/engine/stopwatch.hpp"

#include <algorithm>

namespace oncebox::detail {

Stopwatch::Stopwatch(const Clock& clock)
    : clock_(clock), start_(clock.now()), steady_start_(std::chrono::steady_clock::now()) {}

Duration Stopwatch::elapsed() const {
  const auto steady = std::chrono::steady_clock::now() - steady_start_;
  return std::max(std::chrono::floor<Duration>(steady), clock_.now() - start_);
}

void Stopwatch::restart() {
  start_ = clock_.now();
  steady_start_ = std::chrono::steady_clock::now();
}

}  // namespace oncebox::detail
