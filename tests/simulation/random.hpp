#pragma once

#include <cstddef>
#include <cstdint>

#include "oncebox/clock.hpp"

namespace oncebox::simulation {

/// The chances of one run: the same seed gives the same ones on every machine (splitmix64; those of
/// the standard library differ between implementations).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  /// From 0 to `count` - 1.
  std::size_t below(std::size_t count) noexcept { return static_cast<std::size_t>(next() % count); }
  std::size_t between(std::size_t least, std::size_t most) noexcept {
    return least + below(most - least + 1);
  }
  Duration between(Duration least, Duration most) noexcept {
    return least + Duration{static_cast<Duration::rep>(
                       below(static_cast<std::size_t>((most - least).count()) + 1))};
  }
  bool one_in(std::size_t count) noexcept { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace oncebox::simulation
