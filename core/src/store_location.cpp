#include "oncebox/store_location.hpp"

#include <algorithm>
#include <cstddef>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kMaxStoreNameBytes = 64;

}  // namespace

void require_store_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  if (!name.empty() && name.size() <= kMaxStoreNameBytes && std::ranges::all_of(name, fits)) return;
  throw Error(ErrorCode::invalid_argument,
              "the name of a store is 1 to 64 letters, digits, '-' and '_'");
}

}  // namespace oncebox
