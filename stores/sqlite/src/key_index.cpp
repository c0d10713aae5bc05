#include "key_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "oncebox/error.hpp"

namespace oncebox::sqlite {

KeyIndex::KeyIndex(Connection& connection, std::string_view queue, std::size_t keys_per_segment,
                   KeyFilter filter)
    : keys_per_segment_(keys_per_segment),
      uses_filter_(filter),
      find_(connection.prepare(
          fmt::format("SELECT id FROM oncebox_{}_message WHERE segment = ?1 AND key = ?2", queue))),
      find_anywhere_(connection.prepare(ids_of_key(queue, "?1"))),
      next_segment_(connection.prepare(
          fmt::format("SELECT min(segment) FROM oncebox_{}_message WHERE segment >= ?1", queue))),
      keys_of_segment_(connection.prepare(
          fmt::format("SELECT key FROM oncebox_{}_message WHERE segment = ?1", queue))),
      filter_(keys_per_segment) {}

std::optional<std::int64_t> KeyIndex::find_in_full(const sql::StorageKey& key,
                                                   std::int64_t current) {
  if (uses_filter_ == KeyFilter::none) {
    const ResetLater reset(find_anywhere_);
    if (!find_anywhere_.bind_blob(1, key).step()) return std::nullopt;
    return find_anywhere_.int64(0);
  }
  if (loaded_ < current) load_until(current);
  std::optional<std::int64_t> id;
  filter_.visit_sets_with(key, [&](std::size_t set) {
    // A set of a segment that was taken back is not full: the caller looks there itself.
    const std::int64_t segment = segments_[set];
    if (segment != kNone && segment < current) id = find_in(segment, key);
    return id.has_value();
  });
  return id;
}

std::optional<std::int64_t> KeyIndex::find(const sql::StorageKey& key, std::int64_t current) {
  const std::optional<std::int64_t> recent = find_in(current, key);
  return recent ? recent : find_in_full(key, current);
}

std::optional<std::int64_t> KeyIndex::find_in(std::int64_t segment, const sql::StorageKey& key) {
  const ResetLater reset(find_);
  if (!find_.bind(1, segment).bind_blob(2, key).step()) return std::nullopt;
  return find_.int64(0);
}

std::optional<std::int64_t> KeyIndex::next_segment(std::int64_t from) {
  const ResetLater reset(next_segment_);
  if (!next_segment_.bind(1, from).step() || next_segment_.is_null(0)) return std::nullopt;
  return next_segment_.int64(0);
}

void KeyIndex::load_until(std::int64_t current) {
  drop_empty_segments();
  while (loaded_ < current) {
    const std::optional<std::int64_t> segment = next_segment(loaded_);
    if (!segment || *segment >= current) break;
    const std::size_t set = set_for(*segment);
    const ResetLater reset(keys_of_segment_);
    keys_of_segment_.bind(1, *segment);
    while (keys_of_segment_.step()) {
      const std::string_view bytes = keys_of_segment_.blob(0);
      sql::StorageKey key{};
      if (bytes.size() != key.size()) {
        throw Error(ErrorCode::corrupt, "a stored key does not have 16 bytes");
      }
      std::memcpy(key.data(), bytes.data(), key.size());
      filter_.add(set, key);
    }
    loaded_ = *segment + 1;
  }
  loaded_ = current;
}

// A segment keeps its set when it is read again.
std::size_t KeyIndex::set_for(std::int64_t segment) {
  for (const std::int64_t wanted : {segment, kNone}) {
    const auto found = std::find(segments_.begin(), segments_.end(), wanted);
    if (found == segments_.end()) continue;
    *found = segment;
    return static_cast<std::size_t>(found - segments_.begin());
  }
  segments_.push_back(segment);
  return segments_.size() - 1;
}

// Retention empties old segments; what is forgotten must not fill the memory.
void KeyIndex::drop_empty_segments() {
  for (std::size_t set = 0; set < segments_.size(); ++set) {
    if (segments_[set] == kNone || next_segment(segments_[set]) == segments_[set]) continue;
    filter_.clear(set);
    segments_[set] = kNone;
    dropped_ = true;
  }
}

void KeyIndex::committed() noexcept {
  lasting_ = loaded_;
  dropped_ = false;
}

void KeyIndex::rolled_back() noexcept {
  // What made a segment empty may have been taken back with the rest: then all are read again.
  if (dropped_) lasting_ = 0;
  loaded_ = lasting_;
  dropped_ = false;
}

std::string ids_of_key(std::string_view queue, std::string_view parameter) {
  return fmt::format(R"sql(
  WITH RECURSIVE part (segment) AS (
    SELECT min(segment) FROM oncebox_{0}_message
    UNION ALL
    SELECT (SELECT min(later.segment) FROM oncebox_{0}_message later
             WHERE later.segment > part.segment)
      FROM part WHERE part.segment IS NOT NULL)
  SELECT keyed.id FROM part CROSS JOIN oncebox_{0}_message keyed
      ON keyed.segment = part.segment AND keyed.key = {1})sql",
                     queue, parameter);
}

}  // namespace oncebox::sqlite
