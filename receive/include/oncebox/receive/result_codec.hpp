#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace oncebox {

/// How the result of a handler is stored and read again. Specialise it for your own types:
///
///     template <>
///     struct oncebox::ResultCodec<Receipt> {
///       static std::string encode(const Receipt& receipt);
///       static std::optional<Receipt> decode(std::string_view text);  // nothing: it is none
///     };
///
/// Stored results outlive the program that wrote them: `decode` should read what earlier versions
/// of `encode` wrote. A text that it does not know, and one on which it throws, is no result, and
/// the duplicate is suppressed. An `encode` that throws, or writes more than 1 MiB
/// (`limits::kMaxResultBytes`, fixed), leaves the key completed without a result: the work is done
/// all the same.
///
/// There is one for bool, integers, double, std::string (any bytes) and std::monostate, the result
/// of a handler that has none; all of them write JSON.
template <class T>
struct ResultCodec;

template <class T>
concept StorableResult = std::movable<T> && requires(const T& result, std::string_view text) {
  { ResultCodec<T>::encode(result) } -> std::convertible_to<std::string>;
  { ResultCodec<T>::decode(text) } -> std::convertible_to<std::optional<T>>;
};

namespace detail {
[[nodiscard]] std::string encode_signed(std::int64_t number);
[[nodiscard]] std::string encode_unsigned(std::uint64_t number);
[[nodiscard]] std::optional<std::int64_t> decode_signed(std::string_view text) noexcept;
[[nodiscard]] std::optional<std::uint64_t> decode_unsigned(std::string_view text) noexcept;
}  // namespace detail

template <>
struct ResultCodec<std::monostate> {
  static std::string encode(std::monostate /*nothing*/) { return "null"; }
  static std::optional<std::monostate> decode(std::string_view text) noexcept {
    return text == "null" ? std::optional(std::monostate{}) : std::nullopt;
  }
};

template <>
struct ResultCodec<bool> {
  static std::string encode(bool flag) { return flag ? "true" : "false"; }
  static std::optional<bool> decode(std::string_view text) noexcept {
    if (text == "true") return true;
    return text == "false" ? std::optional(false) : std::nullopt;
  }
};

/// A number that does not fit is no result.
template <std::integral T>
struct ResultCodec<T> {
  static std::string encode(T number) {
    if constexpr (std::is_signed_v<T>)
      return detail::encode_signed(number);
    else
      return detail::encode_unsigned(number);
  }
  static std::optional<T> decode(std::string_view text) noexcept {
    if constexpr (std::is_signed_v<T>)
      return narrowed(detail::decode_signed(text));
    else
      return narrowed(detail::decode_unsigned(text));
  }

 private:
  template <class Wide>
  static std::optional<T> narrowed(std::optional<Wide> number) noexcept {
    if (!number || *number < std::numeric_limits<T>::min() ||
        *number > std::numeric_limits<T>::max()) {
      return std::nullopt;
    }
    return static_cast<T>(*number);
  }
};

/// The shortest text that reads back as the same number. Infinities and NaN are no JSON: `encode`
/// throws `invalid_argument`.
template <>
struct ResultCodec<double> {
  static std::string encode(double number);
  static std::optional<double> decode(std::string_view text) noexcept;
};

template <>
struct ResultCodec<std::string> {
  static std::string encode(const std::string& text);
  static std::optional<std::string> decode(std::string_view text);
};

}  // namespace oncebox
