#pragma once

#include <cstdint>
#include <string_view>

namespace oncebox::server {

/// What a token must allow. `open` needs none.
enum class Scope { open, read, produce, consume, operate };

[[nodiscard]] std::string_view to_string(Scope scope) noexcept;

/// Scopes, a bit for each.
using ScopeBits = std::uint32_t;
inline constexpr ScopeBits kEveryScope = ~ScopeBits{0};

[[nodiscard]] constexpr ScopeBits bit_of(Scope scope) noexcept {
  return ScopeBits{1} << static_cast<unsigned>(scope);
}

}  // namespace oncebox::server
