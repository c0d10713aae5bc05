#pragma once

#include <algorithm>
#include <cstddef>

#include "oncebox/clock.hpp"

namespace oncebox {

/// How many items one transaction takes, so that it lasts no longer than a bound: a hundred at
/// first, half as many after one that took longer, and more, step by step, after those that took
/// less than half of it.
class PacedBatch {
 public:
  static constexpr std::size_t kFirst = 100;

  PacedBatch(std::size_t most, Duration bound)
      : most_(most), bound_(bound), size_(std::min(most, kFirst)) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// A transaction of `size()` items took so long.
  void took(Duration length) noexcept {
    if (length > bound_) {
      size_ = std::max<std::size_t>(size_ / 2, 1);
    } else if (length * 2 < bound_) {
      size_ = std::min(size_ + std::max<std::size_t>(size_ / 4, 1), most_);
    }
  }

 private:
  const std::size_t most_;
  const Duration bound_;
  std::size_t size_;
};

}  // namespace oncebox
