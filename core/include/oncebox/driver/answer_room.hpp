#pragma once

#include <algorithm>
#include <cstddef>

namespace oncebox {

/// For authors of stores: the room that one answer has for records. The first record has room
/// whatever its size.
class AnswerRoom {
 public:
  explicit AnswerRoom(std::size_t max_bytes) noexcept : left_(max_bytes) {}

  /// Takes the room for a record; false when there is not enough left.
  [[nodiscard]] bool take(std::size_t bytes) noexcept {
    if (bytes > left_ && !is_untouched_) return false;
    is_untouched_ = false;
    left_ -= std::min(left_, bytes);
    return true;
  }

 private:
  std::size_t left_;
  bool is_untouched_ = true;
};

}  // namespace oncebox
