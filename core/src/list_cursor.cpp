#include "oncebox/driver/list_cursor.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

constexpr char order_letter(ListOrder order) {
  return order == ListOrder::oldest_first ? 'o' : 'n';
}

// Databases have no larger one.
constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

}  // namespace

Cursor list_cursor(std::uint64_t number, ListOrder order) {
  return Cursor(fmt::format("{}{}", order_letter(order), number));
}

std::uint64_t number_of(const Cursor& cursor, ListOrder order) {
  const std::string& text = cursor.str();
  std::uint64_t number = 0;
  if (!text.empty() && text.front() == order_letter(order)) {
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + 1, last, number);
    if (error == std::errc{} && end == last && number <= kLargest) return number;
  }
  throw Error(ErrorCode::invalid_argument,
              "this cursor was not given by a list in this order; begin without one");
}

}  // namespace oncebox
