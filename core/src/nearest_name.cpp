#include "oncebox/internal/nearest_name.hpp"

#include <numeric>
#include <utility>
#include <vector>

namespace oncebox {

std::size_t edit_distance(std::string_view one, std::string_view other) {
  constexpr int kCaseBit = 0x20;
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= other.size(); ++j) {
      const bool same = (one[i - 1] | kCaseBit) == (other[j - 1] | kCaseBit);
      const std::size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace oncebox
