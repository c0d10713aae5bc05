#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace oncebox::app {

/// Thrown when whoever reads a pipe has closed it: there is nobody left to tell.
struct OutputClosed {};

enum class Style { plain, bold, dim, red, green, yellow };

/// Standard output or standard error: a file descriptor with a buffer, which knows whether a person
/// looks at it. Not safe for several threads.
class Output {
 public:
  /// The descriptor is borrowed.
  explicit Output(int descriptor);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Throws `OutputClosed`, or a `Failure` when it cannot be written.
  void write(std::string_view text);
  void line(std::string_view text);
  void flush();

  [[nodiscard]] bool is_terminal() const noexcept { return is_terminal_; }
  /// Columns of the terminal; 80 where there is none.
  [[nodiscard]] std::size_t columns() const noexcept;

  /// The text in a style, where colours are wanted: on a terminal, unless NO_COLOR is set or TERM
  /// is dumb.
  [[nodiscard]] std::string styled(std::string_view text, Style style) const;

 private:
  int descriptor_;
  bool is_terminal_;
  bool has_colours_;
  std::string buffer_;
};

}  // namespace oncebox::app
