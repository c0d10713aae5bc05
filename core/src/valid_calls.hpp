#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_operator.hpp"

/// What every store may expect of a call.
namespace oncebox {

/// Throws `out_of_range` unless a call can take these messages, whoever stores them.
void require_valid_batch(std::span<const Message> messages);

inline void require_batch_size(std::size_t items) {
  require_in_range("number of items in one call", items, 0, limits::kMaxBatchItems);
}

inline void require_cursor(const std::optional<Cursor>& after) {
  constexpr std::size_t kMaxCursorBytes = 256;
  if (!after || after->str().size() <= kMaxCursorBytes) return;
  throw Error(ErrorCode::invalid_argument, "this cursor was not given by a list");
}

template <class T>
std::span<const T> batch_of_one(const T& item) {
  return {&item, 1};
}

}  // namespace oncebox
