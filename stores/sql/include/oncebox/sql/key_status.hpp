#pragma once

#include <cstdint>
#include <optional>

#include "oncebox/driver/key_state.hpp"

/// The number that stands for the status of a key in the tables.
namespace oncebox::sql {

[[nodiscard]] std::int16_t code_of(KeyStatus status) noexcept;
/// Nothing for a number that stands for none.
[[nodiscard]] std::optional<KeyStatus> key_status(std::int64_t code) noexcept;

}  // namespace oncebox::sql
