#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace oncebox::app {

/// Reads a file, a pipe or a terminal line by line, in bounded memory.
class LineReader {
 public:
  /// "-" is standard input. Throws a `Failure` with `ExitCode::no_input` when it cannot be opened.
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  struct Line {
    std::string_view text;  ///< without the line end; valid until the next call
    bool too_long = false;  ///< the text is only its beginning
  };

  /// The next line, or nothing at the end. Throws a `Failure` when it cannot be read.
  [[nodiscard]] std::optional<Line> next();

  /// Whether `next` would have to wait for whoever writes.
  [[nodiscard]] bool would_wait() const;

  /// The number of the line that was read last, from 1.
  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  /// The size of a file; nothing for anything else.
  [[nodiscard]] std::optional<std::uint64_t> size() const noexcept { return size_; }

  static constexpr std::size_t kMaxLineBytes = 64 << 20;

 private:
  /// False at the end of the file.
  bool fill();

  std::string path_;
  int descriptor_;
  std::optional<std::uint64_t> size_ = {};
  std::string buffer_;
  std::size_t start_ = 0;  ///< of the next line in the buffer
  bool skips_ = false;     ///< the rest of a line that was too long
  std::size_t number_ = 0;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace oncebox::app
