#pragma once

#include <array>
#include <cstdint>

#include "oncebox/names.hpp"

namespace oncebox::sql {

/// 16 bytes that stand for a key in an index: the first half of SHA-256 over its parts, each behind
/// its length, so that ("ab", "c") and ("a", "bc") differ. An index on them is narrower and faster
/// than one on the texts; a store compares the texts too when it finds a row.
using StorageKey = std::array<std::uint8_t, 16>;

[[nodiscard]] StorageKey storage_key(const MessageKey& key);
[[nodiscard]] StorageKey storage_key(const IdempotencyKey& key);

}  // namespace oncebox::sql
