#pragma once

#include "oncebox/driver/message_state.hpp"

namespace oncebox::sql {

/// What a message is doing, as the `stage` column of a queue says. The partial indexes go by it.
enum class Stage : int {
  seen = 0,
  exposed = 1,  ///< in processing; a claim may take it when it is eligible
  blocked = 2,  ///< in processing, behind another message of its partition
  leased = 3,   ///< has an owner; the lease may have lapsed
  done = 4,
  dead = 5,
  without_content = 6,  ///< marked as processing, but never enqueued
  /// Like exposed, but eligible since a time that claims may have passed; PostgreSQL only.
  returned = 7,
};

[[nodiscard]] Status status_of(Stage stage) noexcept;

/// Where a row belongs now. A message of a partition is blocked until its partition is looked at.
[[nodiscard]] Stage stage_of(const MessageState& state) noexcept;

}  // namespace oncebox::sql
