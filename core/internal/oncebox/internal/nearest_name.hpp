#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

/// What somebody probably meant who wrote a name that is not known.
namespace oncebox {

/// How many letters have to be added, removed or replaced to make one text of the other; upper and
/// lower case are the same.
[[nodiscard]] std::size_t edit_distance(std::string_view one, std::string_view other);

/// The first of the names in `known` that is nearest by its spelling; nothing when none is near, or
/// the name is too long to be a slip. What it answers lies in `known`.
template <class Names>
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view name,
                                                           const Names& known) {
  constexpr std::size_t kLongestName = 64;
  if (name.size() > kLongestName) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

}  // namespace oncebox
