#pragma once

#include <span>
#include <string>
#include <string_view>

namespace oncebox::fuzz {

/// A kind of body that the service, or a client of it, reads.
struct Body {
  std::string_view name;
  /// Reads a body of this kind and writes it again; empty when nothing writes this kind. Throws
  /// what the reader throws, and ends the program when something does not hold that must.
  std::string (*rewrite)(std::string_view body);
};

[[nodiscard]] std::span<const Body> bodies();

/// The kind of this name; none has another one.
[[nodiscard]] const Body* find_body(std::string_view name);

}  // namespace oncebox::fuzz
