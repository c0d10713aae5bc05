#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "oncebox/store_location.hpp"

namespace oncebox {

inline constexpr std::size_t kMaxDiscoveredStores = 10'000;
inline constexpr std::size_t kMaxStoreUrlBytes = 4'096;

/// Gathers what a discovery finds, and refuses what no `StoreSet` could use. No error has a URL in
/// it.
class LocationList {
 public:
  /// Throws `invalid_argument` for a bad name, one that is there already, a URL that is empty or
  /// too long, and one location too many.
  void add(std::string name, std::string url);

  [[nodiscard]] std::vector<StoreLocation> take() && { return std::move(locations_); }

 private:
  std::vector<StoreLocation> locations_;
  std::unordered_set<std::string> names_;
};

}  // namespace oncebox
