#include "oncebox/names.hpp"

#include <fmt/format.h>

#include "oncebox/error.hpp"
#include "oncebox/internal/utf8.hpp"

namespace oncebox::detail {

void require_name(std::string_view text, std::string_view what, std::size_t max_code_points) {
  if (text.empty()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("the {} is empty; give it a value", what));
  }
  const std::optional<std::size_t> length = count_code_points(text);
  if (!length) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the {} is not valid UTF-8 or contains a NUL character", what));
  }
  if (*length > max_code_points) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the {} has {} characters; at most {} are allowed", what, *length,
                            max_code_points));
  }
}

}  // namespace oncebox::detail
