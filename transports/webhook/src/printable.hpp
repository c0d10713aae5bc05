#pragma once

#include <algorithm>
#include <string_view>

namespace oncebox::webhook {

/// Whether all of it is printable ASCII, as the value of a field line has to be.
[[nodiscard]] inline bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace oncebox::webhook
