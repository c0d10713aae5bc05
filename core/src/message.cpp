#include "oncebox/message.hpp"

#include <fmt/format.h>

#include "oncebox/error.hpp"

namespace oncebox {

Priority::Priority(int value) : value_(static_cast<std::int16_t>(value)) {
  if (value < kMin || value > kMax) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("the priority is {}; it must be from {} to {}", value, kMin, kMax));
  }
}

std::string_view to_string(Status status) noexcept {
  switch (status) {
    case Status::seen:
      return "seen";
    case Status::processing:
      return "processing";
    case Status::done:
      return "done";
    case Status::dead:
      return "dead";
  }
  return "unknown";
}

}  // namespace oncebox
