#include "oncebox/error.hpp"

namespace oncebox {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::out_of_range:
      return "out_of_range";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::conflict:
      return "conflict";
    case ErrorCode::overloaded:
      return "overloaded";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::outcome_unknown:
      return "outcome_unknown";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

bool is_retryable(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::overloaded:
    case ErrorCode::unavailable:
    case ErrorCode::timeout:
    case ErrorCode::outcome_unknown:
      return true;
    case ErrorCode::invalid_argument:
    case ErrorCode::out_of_range:
    case ErrorCode::not_found:
    case ErrorCode::conflict:
    case ErrorCode::cancelled:
    case ErrorCode::unsupported:
    case ErrorCode::corrupt:
    case ErrorCode::internal:
      return false;
  }
  return false;
}

}  // namespace oncebox
