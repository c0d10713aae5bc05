#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oncebox/sql/storage_key.hpp"

namespace oncebox::sqlite {

/// Tells in which of many sets a key may be: a Bloom filter for each set, all asked at once. It may
/// name a set that lacks the key, about one in a thousand; it never leaves out one that has it.
///
/// Bit `c` of row `r` belongs to set `c`: the few rows that a key chooses, joined by AND, leave the
/// bits of the sets that may have it. So asking costs a few memory accesses for 64 sets.
class SegmentFilter {
 public:
  /// `keys_per_set` is what a set holds as a rule; one that holds more is named in vain more often.
  explicit SegmentFilter(std::size_t keys_per_set);

  void add(std::size_t set, const sql::StorageKey& key);
  /// Empties a set.
  void clear(std::size_t set) noexcept;

  /// Calls `visit(set)` for each set that may have the key, until it answers true. Answers whether
  /// it did.
  template <class Visit>
  bool visit_sets_with(const sql::StorageKey& key, Visit visit) const {
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      std::uint64_t sets = sets_with(group, key);
      for (std::size_t bit = 0; sets != 0; ++bit, sets >>= 1U) {
        if ((sets & 1U) != 0 && visit(group * kSetsPerGroup + bit)) return true;
      }
    }
    return false;
  }

 private:
  static constexpr std::size_t kSetsPerGroup = 64;
  using Rows = std::vector<std::uint64_t>;

  [[nodiscard]] std::uint64_t sets_with(std::size_t group, const sql::StorageKey& key) const;

  std::size_t row_mask_;  ///< the number of rows is a power of two; this is one less
  std::vector<Rows> groups_;
};

}  // namespace oncebox::sqlite
