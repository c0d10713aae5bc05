#include "output.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "failure.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kBufferBytes = 64 << 10;

bool wants_colours() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

std::string_view code_of(Style style) {
  switch (style) {
    case Style::plain:
      return "0";
    case Style::bold:
      return "1";
    case Style::dim:
      return "2";
    case Style::red:
      return "31";
    case Style::green:
      return "32";
    case Style::yellow:
      return "33";
  }
  return "0";
}

}  // namespace

Output::Output(int descriptor)
    : descriptor_(descriptor),
      is_terminal_(isatty(descriptor) == 1),
      has_colours_(is_terminal_ && wants_colours()) {}

void Output::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) flush();
}

void Output::line(std::string_view text) {
  buffer_ += text;
  write("\n");
}

void Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    const int error = errno;
    // Else the end of the program would try again.
    buffer_.clear();
    if (error == EPIPE) throw OutputClosed{};
    throw Failure(ExitCode::io_error,
                  fmt::format("the output cannot be written: {}", std::strerror(error)));
  }
  buffer_.clear();
}

std::size_t Output::columns() const noexcept {
  winsize size{};
  if (!is_terminal_ || ioctl(descriptor_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string Output::styled(std::string_view text, Style style) const {
  if (!has_colours_ || style == Style::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(style), text);
}

}  // namespace oncebox::app
