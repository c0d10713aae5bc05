#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "oncebox/error.hpp"

/// What every fuzz target needs: libFuzzer calls `LLVMFuzzerTestOneInput` with bytes of its own
/// making, again and again, and looks for those that go new ways through the code.
namespace oncebox::fuzz {

/// Cuts the bytes into parts. Parts end with a line, so that seeds can be written by hand.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  [[nodiscard]] std::string line() {
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return text;
  }

  /// A number from 0 to `count - 1`, by one letter: a, b, c, …
  [[nodiscard]] std::size_t choice(std::size_t count) {
    if (rest_.empty()) return 0;
    const auto letter = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return (letter >= 'a' ? letter - std::size_t{'a'} : letter) % count;
  }

  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// Ends the program, and so the fuzzer finds it, when something that must hold does not.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// Runs what may refuse its input. Anything but an `Error` of the input's kind is a defect.
template <class Call>
void may_refuse(Call call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::out_of_range,
            error.what());
  }
}

}  // namespace oncebox::fuzz
