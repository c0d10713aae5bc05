#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace oncebox {

/// What a histogram says about its values. Quantiles are exact below 16 and at most 1/16 too large
/// above.
struct Distribution {
  std::uint64_t count = 0;
  std::uint64_t p50 = 0;
  std::uint64_t p95 = 0;
  std::uint64_t p99 = 0;
  std::uint64_t max = 0;  ///< exact
  double mean = 0;        ///< exact
};

/// Counts values in buckets whose width grows with the value, 16 to each power of two, so that its
/// size is fixed and `record` costs a few nanoseconds. Values from 2^40 on count as that (in
/// nanoseconds: 18 minutes), but for the maximum and the mean.
///
/// Every call is safe from any thread. A snapshot that is taken while others record may miss what
/// they are about to add.
class Histogram {
 public:
  void record(std::uint64_t value) noexcept;
  /// Adds what `other` has counted.
  void add(const Histogram& other) noexcept;
  [[nodiscard]] Distribution distribution() const noexcept;

 private:
  static constexpr unsigned kStepBits = 4;
  static constexpr unsigned kMaxBits = 40;
  static constexpr std::size_t kSteps = std::size_t{1} << kStepBits;
  static constexpr std::size_t kBuckets = (kMaxBits - kStepBits + 1) * kSteps + 1;

  static std::size_t bucket_of(std::uint64_t value) noexcept;
  static std::uint64_t largest_in(std::size_t bucket) noexcept;
  void raise_max(std::uint64_t value) noexcept;

  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
  std::atomic<std::uint64_t> sum_ = 0;
  std::atomic<std::uint64_t> max_ = 0;
};

}  // namespace oncebox
