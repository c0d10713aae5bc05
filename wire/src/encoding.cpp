#include "oncebox/wire/encoding.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace oncebox::wire {

namespace {

constexpr std::string_view kBase64Alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kHexDigits = "0123456789ABCDEF";
constexpr std::uint8_t kNoDigit = 0xff;

constexpr std::array<std::uint8_t, 256> digit_values(std::string_view alphabet) {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (std::size_t digit = 0; digit < alphabet.size(); ++digit) {
    values[static_cast<unsigned char>(alphabet[digit])] = static_cast<std::uint8_t>(digit);
  }
  return values;
}

constexpr std::array<std::uint8_t, 256> kBase64Values = digit_values(kBase64Alphabet);

std::uint8_t base64_value(char character) {
  return kBase64Values[static_cast<unsigned char>(character)];
}

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

std::uint32_t byte_at(std::string_view bytes, std::size_t place) {
  return static_cast<unsigned char>(bytes[place]);
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  const auto append = [&text](std::uint32_t bits, int digits) {
    for (int digit = 0; digit < digits; ++digit) {
      text += kBase64Alphabet[(bits >> (18 - 6 * digit)) & 0x3f];
    }
  };
  std::size_t place = 0;
  for (; place + 3 <= bytes.size(); place += 3) {
    append(byte_at(bytes, place) << 16 | byte_at(bytes, place + 1) << 8 | byte_at(bytes, place + 2),
           4);
  }
  const std::size_t rest = bytes.size() - place;
  if (rest == 1) {
    append(byte_at(bytes, place) << 16, 2);
    text += "==";
  } else if (rest == 2) {
    append(byte_at(bytes, place) << 16 | byte_at(bytes, place + 1) << 8, 3);
    text += '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  const std::string_view digits = text.substr(0, text.size() - padding);

  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  unsigned bit_count = 0;
  for (const char character : digits) {
    const std::uint8_t value = base64_value(character);
    if (value == kNoDigit) return std::nullopt;
    bits = bits << 6 | value;
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      bytes += static_cast<char>(bits >> bit_count & 0xff);
    }
  }
  // Of two texts for the same bytes only the one that to_base64 makes is good.
  const std::uint32_t unused = bits & ((std::uint32_t{1} << bit_count) - 1);
  if (unused != 0) return std::nullopt;
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
