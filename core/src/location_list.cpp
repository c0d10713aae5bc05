#include "oncebox/internal/location_list.hpp"

#include <fmt/format.h>

#include <utility>

#include "oncebox/error.hpp"

namespace oncebox {

void LocationList::add(std::string name, std::string url) {
  require_store_name(name);
  if (url.empty() || url.size() > kMaxStoreUrlBytes) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the URL of the store {} must have 1 to {} bytes", name, kMaxStoreUrlBytes));
  }
  if (locations_.size() == kMaxDiscoveredStores) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there are more than {} stores", kMaxDiscoveredStores));
  }
  if (!names_.insert(name).second) {
    throw Error(ErrorCode::invalid_argument, fmt::format("the name {} is there twice", name));
  }
  locations_.push_back({std::move(name), std::move(url)});
}

}  // namespace oncebox
