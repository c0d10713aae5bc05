#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "connection.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "segment_filter.hpp"

namespace oncebox::sqlite {

/// Whether a filter in memory tells where a key may be. It takes time to make, so a caller that
/// looks for few keys does without.
enum class KeyFilter { in_memory, none };

/// Finds the keys of one queue. Used on the writer's thread only, inside a transaction.
///
/// Keys are as good as random, so in one large index every new key would change a page of its own:
/// among a million keys that costs more than all the rest of taking a message in. So they are
/// indexed in segments: new ones go to the current segment, whose few pages are hot, and when it is
/// full the next one begins. In which of the full segments a key may be, a filter in memory tells;
/// one that is in none costs no look at them.
///
/// The filter is made from the index when a process first needs it, and extended when it sees that
/// a segment has become full, by its own doing or another's.
class KeyIndex {
 public:
  KeyIndex(Connection& connection, std::string_view queue, std::size_t keys_per_segment,
           KeyFilter filter = KeyFilter::in_memory);

  [[nodiscard]] std::size_t keys_per_segment() const noexcept { return keys_per_segment_; }

  /// The message under a key in a segment before `current`.
  [[nodiscard]] std::optional<std::int64_t> find_in_full(const sql::StorageKey& key,
                                                         std::int64_t current);
  /// The message under a key anywhere.
  [[nodiscard]] std::optional<std::int64_t> find(const sql::StorageKey& key, std::int64_t current);

  /// Reads the full segments now, so that the first call need not.
  void load(std::int64_t current) {
    if (loaded_ < current) load_until(current);
  }

  /// What was read since the last call of either was committed, or was taken back: a segment that
  /// became full in a transaction that did not last is not full.
  void committed() noexcept;
  void rolled_back() noexcept;

 private:
  static constexpr std::int64_t kNone = -1;

  void load_until(std::int64_t current);
  [[nodiscard]] std::size_t set_for(std::int64_t segment);
  void drop_empty_segments();
  [[nodiscard]] std::optional<std::int64_t> next_segment(std::int64_t from);
  [[nodiscard]] std::optional<std::int64_t> find_in(std::int64_t segment,
                                                    const sql::StorageKey& key);

  const std::size_t keys_per_segment_;
  const KeyFilter uses_filter_;
  Statement find_;
  Statement find_anywhere_;
  Statement next_segment_;
  Statement keys_of_segment_;
  SegmentFilter filter_;
  std::vector<std::int64_t> segments_;  ///< of each set of the filter; `kNone`: free
  std::int64_t loaded_ = 0;             ///< every segment before it is in the filter
  std::int64_t lasting_ = 0;            ///< what `loaded_` was at the last commit
  bool dropped_ = false;                ///< a segment, since the last commit
};

/// The ids of messages under the key that `parameter` stands for, in whatever segment: a subquery
/// for calls that only read, which look into every segment.
[[nodiscard]] std::string ids_of_key(std::string_view queue, std::string_view parameter);

}  // namespace oncebox::sqlite
