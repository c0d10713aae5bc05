#include "line_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "failure.hpp"
#include "printable.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kReadBytes = 256 << 10;

[[noreturn]] void refuse_input(const std::string& path, int error) {
  throw Failure(ExitCode::no_input,
                fmt::format("{} cannot be read: {}", printable(path), std::strerror(error)));
}

}  // namespace

LineReader::LineReader(const std::string& path)
    : path_(path),
      descriptor_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) refuse_input(path, errno);
  struct stat status{};
  if (fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
}

LineReader::~LineReader() {
  if (descriptor_ != STDIN_FILENO) close(descriptor_);
}

bool LineReader::fill() {
  buffer_.erase(0, start_);
  start_ = 0;
  const std::size_t kept = buffer_.size();
  buffer_.resize(kept + kReadBytes);
  ssize_t count = 0;
  do {
    count = read(descriptor_, buffer_.data() + kept, kReadBytes);
  } while (count < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(kept + static_cast<std::size_t>(count > 0 ? count : 0));
  if (count < 0) refuse_input(path_, error);
  bytes_read_ += static_cast<std::uint64_t>(count);
  return count > 0;
}

bool LineReader::would_wait() const {
  if (buffer_.find('\n', start_) != std::string::npos) return false;
  pollfd input{descriptor_, POLLIN, 0};
  return poll(&input, 1, 0) == 0;
}

std::optional<LineReader::Line> LineReader::next() {
  while (std::exchange(skips_, false)) {
    const std::size_t end = buffer_.find('\n', start_);
    start_ = end == std::string::npos ? buffer_.size() : end + 1;
    if (end == std::string::npos) skips_ = fill();
  }
  std::size_t searched = start_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    const bool too_long = end == std::string::npos && buffer_.size() - start_ > kMaxLineBytes;
    if (end != std::string::npos || too_long) {
      const std::size_t stop = too_long ? start_ + kMaxLineBytes : end;
      const std::string_view text(buffer_.data() + start_, stop - start_);
      start_ = too_long ? stop : end + 1;
      skips_ = too_long;
      ++number_;
      return Line{text, too_long};
    }
    const std::size_t seen = buffer_.size() - start_;
    if (!fill()) break;
    searched = seen;
  }
  if (start_ == buffer_.size()) return {};
  const std::string_view text(buffer_.data() + start_, buffer_.size() - start_);
  start_ = buffer_.size();
  ++number_;
  return Line{text};
}

}  // namespace oncebox::app
