#include "oncebox/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace oncebox {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

// Values below 2^kStepBits have a bucket each. Above, the leading one and the kStepBits bits after
// it choose the bucket.
std::size_t Histogram::bucket_of(std::uint64_t value) noexcept {
  if (value < kSteps) return static_cast<std::size_t>(value);
  const auto bits = static_cast<unsigned>(std::bit_width(value));
  if (bits > kMaxBits) return kBuckets - 1;
  const unsigned shift = bits - 1 - kStepBits;
  const auto step = static_cast<std::size_t>(value >> shift) - kSteps;
  return (shift + 1) * kSteps + step;
}

std::uint64_t Histogram::largest_in(std::size_t bucket) noexcept {
  if (bucket < kSteps) return bucket;
  const std::size_t shift = bucket / kSteps - 1;
  const std::uint64_t step = kSteps + bucket % kSteps;
  return ((step + 1) << shift) - 1;
}

void Histogram::record(std::uint64_t value) noexcept {
  counts_[bucket_of(value)].fetch_add(1, kRelaxed);
  sum_.fetch_add(value, kRelaxed);
  raise_max(value);
}

void Histogram::raise_max(std::uint64_t value) noexcept {
  std::uint64_t seen = max_.load(kRelaxed);
  while (value > seen && !max_.compare_exchange_weak(seen, value, kRelaxed)) {
  }
}

void Histogram::add(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    const std::uint64_t count = other.counts_[i].load(kRelaxed);
    if (count > 0) counts_[i].fetch_add(count, kRelaxed);
  }
  sum_.fetch_add(other.sum_.load(kRelaxed), kRelaxed);
  raise_max(other.max_.load(kRelaxed));
}

Distribution Histogram::distribution() const noexcept {
  std::array<std::uint64_t, kBuckets> counts{};
  Distribution result;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    counts[i] = counts_[i].load(kRelaxed);
    result.count += counts[i];
  }
  if (result.count == 0) return result;
  result.max = max_.load(kRelaxed);
  result.mean = static_cast<double>(sum_.load(kRelaxed)) / static_cast<double>(result.count);

  const auto quantile = [&](double share) {
    const auto rank =
        static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(result.count)));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += counts[i];
      // No value lies above the maximum, whatever its bucket could hold.
      if (seen >= rank) return std::min(largest_in(i), result.max);
    }
    return result.max;
  };
  result.p50 = quantile(0.50);
  result.p95 = quantile(0.95);
  result.p99 = quantile(0.99);
  return result;
}

}  // namespace oncebox
