#pragma once

#include <cstdint>

#include "oncebox/queue_operator.hpp"

/// The cursors of stores that number their messages in the order of lists.
namespace oncebox {

/// The cursor behind the message with this number.
[[nodiscard]] Cursor list_cursor(std::uint64_t number, ListOrder order);

/// The number that `list_cursor` was given. Throws `invalid_argument` for any other cursor, also
/// for one of a list in the other order.
[[nodiscard]] std::uint64_t number_of(const Cursor& cursor, ListOrder order);

}  // namespace oncebox
