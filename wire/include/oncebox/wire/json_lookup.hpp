#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace oncebox::wire {

/// Finds values in a JSON text of others, and gives them as they were written: no number is
/// rounded. The text is borrowed.
class JsonLookup {
 public:
  static constexpr std::size_t kMaxNesting = 512;

  /// In a text that is not JSON, or is nested deeper than that, nothing is found.
  explicit JsonLookup(std::string_view text) noexcept;

  /// What a string says, a number or a truth value as it stands in the text; nothing for null, for
  /// arrays and objects, and where nothing is. Of members of one name the last counts. `pointer` is
  /// a JSON pointer (RFC 6901).
  [[nodiscard]] std::optional<std::string> find(std::string_view pointer) const;

 private:
  std::string_view root_;  // empty: not JSON
};

}  // namespace oncebox::wire
