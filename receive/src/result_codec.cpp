#include "oncebox/receive/result_codec.hpp"

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

template <class Number>
std::string shortest_text(Number number) {
  std::array<char, 32> buffer{};  // the longest double takes 24
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return {buffer.data(), written.ptr};
}

template <class Number>
std::optional<Number> whole_number_text(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

std::string detail::encode_signed(std::int64_t number) { return shortest_text(number); }
std::string detail::encode_unsigned(std::uint64_t number) { return shortest_text(number); }

std::optional<std::int64_t> detail::decode_signed(std::string_view text) noexcept {
  return whole_number_text<std::int64_t>(text);
}
std::optional<std::uint64_t> detail::decode_unsigned(std::string_view text) noexcept {
  return whole_number_text<std::uint64_t>(text);
}

std::string ResultCodec<double>::encode(double number) {
  if (!std::isfinite(number)) {
    throw Error(ErrorCode::invalid_argument, "a result that is no finite number cannot be stored");
  }
  return shortest_text(number);
}

std::optional<double> ResultCodec<double>::decode(std::string_view text) noexcept {
  const std::optional<double> number = whole_number_text<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::string ResultCodec<std::string>::encode(const std::string& text) {
  return boost::json::serialize(boost::json::string_view(text));
}

// Bytes that are no UTF-8 were written as they are, and come back as they were.
std::optional<std::string> ResultCodec<std::string>::decode(std::string_view text) {
  boost::json::parse_options options;
  options.allow_invalid_utf8 = true;
  boost::system::error_code failed;
  const boost::json::value parsed = boost::json::parse(text, failed, {}, options);
  if (failed || !parsed.is_string()) return std::nullopt;
  return std::string(parsed.get_string());
}

}  // namespace oncebox
