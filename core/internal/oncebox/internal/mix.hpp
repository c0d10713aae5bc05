#pragma once

#include <cstdint>

namespace oncebox::detail {

/// Spreads a number over all 64 bits (the finalizer of SplitMix64): neighbours become strangers.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t number) noexcept {
  number = (number ^ (number >> 30U)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27U)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31U);
}

}  // namespace oncebox::detail
