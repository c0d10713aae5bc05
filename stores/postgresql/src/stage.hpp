#pragma once

#include "oncebox/message.hpp"

namespace oncebox::postgresql {

/// What a message is doing, as the `stage` column says. The partial indexes go by it.
enum class Stage : int {
  seen = 0,
  exposed = 1,  ///< in processing; a claim may take it when it is eligible
  blocked = 2,  ///< in processing, behind another message of its partition
  leased = 3,   ///< has an owner; the lease may have lapsed
  done = 4,     ///< stands in the table of those that are done
  dead = 5,
  without_content = 6,  ///< marked as processing, but never enqueued
  returned = 7,         ///< like exposed, but eligible since a time that claims may have passed
};

[[nodiscard]] constexpr Status status_of(Stage stage) noexcept {
  switch (stage) {
    case Stage::seen:
      return Status::seen;
    case Stage::done:
      return Status::done;
    case Stage::dead:
      return Status::dead;
    case Stage::exposed:
    case Stage::blocked:
    case Stage::leased:
    case Stage::without_content:
    case Stage::returned:
      return Status::processing;
  }
  return Status::seen;
}

}  // namespace oncebox::postgresql
