#include "oncebox/wire/encoding.hpp"

#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>

namespace oncebox::wire {

namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";
constexpr std::uint8_t kNoDigit = 0xff;

std::uint8_t hex_value(char character) {
  if (character >= '0' && character <= '9') return static_cast<std::uint8_t>(character - '0');
  if (character >= 'A' && character <= 'F') return static_cast<std::uint8_t>(character - 'A' + 10);
  if (character >= 'a' && character <= 'f') return static_cast<std::uint8_t>(character - 'a' + 10);
  return kNoDigit;
}

bool is_unreserved(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '-' || character == '.' ||
         character == '_' || character == '~';
}

unsigned char* bytes_of(std::string& text) noexcept {
  return reinterpret_cast<unsigned char*>(text.data());
}
const unsigned char* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text(base64_size(bytes.size()), '=');
  EVP_EncodeBlock(bytes_of(text), bytes_of(bytes), static_cast<int>(bytes.size()));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(bytes_of(bytes), bytes_of(text), static_cast<int>(text.size())) < 0) {
    return std::nullopt;
  }
  // It counts the padding as bytes.
  if (text.ends_with('=')) bytes.erase(bytes.size() - (text.ends_with("==") ? 2 : 1));
  // Of two texts for the same bytes only the one that to_base64 makes is good.
  if (to_base64(bytes) != text) return std::nullopt;
  return bytes;
}

std::string percent_encode(std::string_view text) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char character : text) {
    if (is_unreserved(character)) {
      encoded += character;
    } else {
      const auto byte = static_cast<unsigned char>(character);
      encoded += '%';
      encoded += kHexDigits[byte >> 4];
      encoded += kHexDigits[byte & 0xf];
    }
  }
  return encoded;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t place = 0; place < text.size(); ++place) {
    if (text[place] != '%') {
      decoded += text[place];
      continue;
    }
    if (text.size() - place < 3) return std::nullopt;
    const std::uint8_t high = hex_value(text[place + 1]);
    const std::uint8_t low = hex_value(text[place + 2]);
    if (high == kNoDigit || low == kNoDigit) return std::nullopt;
    decoded += static_cast<char>(high << 4 | low);
    place += 2;
  }
  return decoded;
}

}  // namespace oncebox::wire
