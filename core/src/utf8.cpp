#include "oncebox/internal/utf8.hpp"

#include <boost/locale/utf.hpp>

namespace oncebox::detail {

namespace utf = boost::locale::utf;

DecodedCharacter decode_first(std::string_view text) noexcept {
  const char* position = text.data();
  const utf::code_point point = utf::utf_traits<char>::decode(position, text.data() + text.size());
  if (point == utf::illegal || point == utf::incomplete) return {.bytes = 1, .valid = false};
  return {.bytes = static_cast<std::size_t>(position - text.data()),
          .valid = true,
          .code_point = point};
}

std::optional<std::size_t> count_code_points(std::string_view text) noexcept {
  std::size_t count = 0;
  while (!text.empty()) {
    const char first = text.front();
    if (first == '\0') return std::nullopt;
    std::size_t bytes = 1;
    if (static_cast<unsigned char>(first) >= 0x80) {  // ASCII, the common case, needs no decoding
      const DecodedCharacter character = decode_first(text);
      if (!character.valid) return std::nullopt;
      bytes = character.bytes;
    }
    text.remove_prefix(bytes);
    ++count;
  }
  return count;
}

}  // namespace oncebox::detail
