#include "oncebox/uuid.hpp"

#include <fmt/format.h>

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

void fill_random(std::uint8_t* out, std::size_t size) {
  while (size > 0) {
    const ssize_t got = getrandom(out, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(ErrorCode::unavailable, "the system gives no random bytes (getrandom failed)");
    }
    out += got;
    size -= static_cast<std::size_t>(got);
  }
}

constexpr bool is_dash_position(std::size_t position) {
  return position == 8 || position == 13 || position == 18 || position == 23;
}

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

Uuid Uuid::generate_v7(TimePoint now) {
  Bytes bytes{};
  fill_random(bytes.data() + 6, bytes.size() - 6);
  auto millis = static_cast<std::uint64_t>(now.time_since_epoch().count());
  for (std::size_t i = 6; i-- > 0; millis >>= 8) bytes[i] = static_cast<std::uint8_t>(millis);
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0F) | 0x70);  // version 7
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3F) | 0x80);  // the variant of RFC 9562
  return Uuid(bytes);
}

Uuid Uuid::parse(std::string_view text) {
  Bytes bytes{};
  std::size_t digits = 0;
  bool valid = text.size() == 36;
  for (std::size_t i = 0; valid && i < text.size(); ++i) {
    if (is_dash_position(i)) {
      valid = text[i] == '-';
      continue;
    }
    const int value = hex_value(text[i]);
    valid = value >= 0;
    if (valid) bytes[digits / 2] = static_cast<std::uint8_t>(bytes[digits / 2] << 4 | value);
    ++digits;
  }
  if (!valid) {
    throw Error(ErrorCode::invalid_argument,
                "not a UUID; expected 36 characters such as 0190163d-8694-739b-aea5-966c26f8ad91");
  }
  return Uuid(bytes);
}

std::string Uuid::to_string() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(36, '-');
  std::size_t position = 0;
  for (const std::uint8_t byte : bytes_) {
    if (is_dash_position(position)) ++position;
    text[position++] = kDigits[byte >> 4];
    text[position++] = kDigits[byte & 0x0F];
  }
  return text;
}

void detail::require_not_nil(const Uuid& uuid, std::string_view what) {
  if (!uuid.is_nil()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the {} is empty; make one with generate()", what));
}

}  // namespace oncebox

std::size_t std::hash<oncebox::Uuid>::operator()(const oncebox::Uuid& uuid) const noexcept {
  const std::string_view bytes(reinterpret_cast<const char*>(uuid.bytes().data()),
                               uuid.bytes().size());
  return std::hash<std::string_view>{}(bytes);
}
