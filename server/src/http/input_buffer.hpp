#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace oncebox::server {

/// What came in on a connection and was not used yet. Small while little comes, because there are
/// many connections.
class InputBuffer {
 public:
  static constexpr std::size_t kSmall = 4 << 10;

  [[nodiscard]] std::string_view view() const noexcept { return {data_.get() + begin_, size()}; }
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  void consume(std::size_t bytes) noexcept { begin_ += bytes; }
  void clear() noexcept { begin_ = end_; }

  /// Room for more, in a buffer of `capacity` bytes, or of as many as are held. Moves what is held;
  /// so not while a read is under way. Empty when it is full.
  struct Room {
    char* data;
    std::size_t size;
  };
  [[nodiscard]] Room prepare(std::size_t capacity) {
    capacity = std::max(capacity, size());
    if (capacity != capacity_) {
      std::unique_ptr<char[]> fresh(new char[capacity]);
      if (size() > 0) std::memcpy(fresh.get(), data_.get() + begin_, size());
      data_ = std::move(fresh);
      capacity_ = capacity;
      end_ -= begin_;
      begin_ = 0;
    } else if (begin_ > 0) {
      std::memmove(data_.get(), data_.get() + begin_, size());
      end_ -= begin_;
      begin_ = 0;
    }
    return {data_.get() + end_, capacity_ - end_};
  }
  void commit(std::size_t bytes) noexcept { end_ += bytes; }

 private:
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace oncebox::server
