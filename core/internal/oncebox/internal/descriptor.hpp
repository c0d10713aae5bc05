#pragma once

#include <unistd.h>

#include <utility>

namespace oncebox::detail {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  void reset() noexcept {
    if (number_ >= 0) close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

}  // namespace oncebox::detail
