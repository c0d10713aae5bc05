#include "oncebox/sql/key_status.hpp"

#include <algorithm>
#include <array>

namespace oncebox::sql {

namespace {

// The place of a status is its number: add only at the end.
constexpr std::array kStatuses{KeyStatus::in_progress, KeyStatus::released, KeyStatus::failed,
                               KeyStatus::processed};

}  // namespace

std::int16_t code_of(KeyStatus status) noexcept {
  return static_cast<std::int16_t>(std::find(kStatuses.begin(), kStatuses.end(), status) -
                                   kStatuses.begin());
}

std::optional<KeyStatus> key_status(std::int64_t code) noexcept {
  if (code < 0 || code >= std::ssize(kStatuses)) return std::nullopt;
  return kStatuses[static_cast<std::size_t>(code)];
}

}  // namespace oncebox::sql
