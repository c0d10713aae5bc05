#include "segment_filter.hpp"

#include <bit>
#include <cstring>

namespace oncebox::sqlite {

namespace {

constexpr std::size_t kRowsPerKey = 16;  // with five of them chosen: 0.14 % named in vain
constexpr int kRowsChosen = 5;

// The rows that a key chooses. A storage key is a piece of SHA-256, so its bits are as good as
// random; the step is odd so that it meets different rows.
class ChosenRows {
 public:
  explicit ChosenRows(const sql::StorageKey& key) {
    std::memcpy(&row_, key.data(), sizeof row_);
    std::memcpy(&step_, key.data() + sizeof row_, sizeof step_);
    step_ |= 1U;
  }
  [[nodiscard]] std::uint64_t next() noexcept { return row_ += step_; }

 private:
  std::uint64_t row_ = 0;
  std::uint64_t step_ = 0;
};

}  // namespace

SegmentFilter::SegmentFilter(std::size_t keys_per_set)
    : row_mask_(std::bit_ceil(keys_per_set * kRowsPerKey) - 1) {}

void SegmentFilter::add(std::size_t set, const sql::StorageKey& key) {
  const std::size_t group = set / kSetsPerGroup;
  while (groups_.size() <= group) groups_.emplace_back(row_mask_ + 1);
  const std::uint64_t bit = std::uint64_t{1} << (set % kSetsPerGroup);
  ChosenRows rows(key);
  for (int i = 0; i < kRowsChosen; ++i) groups_[group][rows.next() & row_mask_] |= bit;
}

void SegmentFilter::clear(std::size_t set) noexcept {
  const std::size_t group = set / kSetsPerGroup;
  if (group >= groups_.size()) return;
  const std::uint64_t others = ~(std::uint64_t{1} << (set % kSetsPerGroup));
  for (std::uint64_t& row : groups_[group]) row &= others;
}

std::uint64_t SegmentFilter::sets_with(std::size_t group, const sql::StorageKey& key) const {
  const Rows& bits = groups_[group];
  ChosenRows rows(key);
  std::uint64_t sets = ~std::uint64_t{0};
  for (int i = 0; i < kRowsChosen && sets != 0; ++i) sets &= bits[rows.next() & row_mask_];
  return sets;
}

}  // namespace oncebox::sqlite
