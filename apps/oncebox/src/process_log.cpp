#include "process_log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ostream>
#include <streambuf>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/internal/descriptor.hpp"

namespace oncebox::app {

namespace {

/// Requests are many: their lines are written together, ten times a second.
constexpr Duration kFlushInterval{100};
constexpr Duration kLastLinesPatience = std::chrono::seconds{1};
/// So often a write that waits for the reader looks whether the process ends.
constexpr int kLookMillis = 50;

/// For a pipe or a terminal another opening of the same: that no write waits there is to hold for
/// us alone, not for everybody who shares standard error.
detail::Descriptor own_opening() {
  struct stat status{};
  const bool may_stall =
      fstat(STDERR_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
  if (!may_stall) return detail::Descriptor();
  return detail::Descriptor(open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

/// Standard error, of which a write can be given up. Safe from several threads: what is written in
/// one call stays together.
class StderrBuffer final : public std::streambuf {
 public:
  /// From then on no write waits for the reader.
  void give_up_in(Duration time) noexcept { give_up_at_ = SystemClock::shared().steady() + time; }

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const detail::Lock lock(mutex_);
    // Where it could not be opened again, a pipe that can be written takes so many at once.
    constexpr std::streamsize kPiece = PIPE_BUF;
    std::streamsize written = 0;
    while (written < size && wait_for_reader()) {
      const auto piece = static_cast<std::size_t>(std::min(size - written, kPiece));
      const ssize_t taken = ::write(descriptor_, text + written, piece);
      if (taken >= 0) {
        written += taken;
      } else if (errno != EINTR && errno != EAGAIN) {
        break;
      }
    }
    return written;
  }

  /// False when it is given up.
  [[nodiscard]] bool wait_for_reader() const noexcept {
    while (SystemClock::shared().steady() < give_up_at_.load()) {
      pollfd reader{.fd = descriptor_, .events = POLLOUT, .revents = 0};
      // What is wrong with it, if anything, the write says.
      if (poll(&reader, 1, kLookMillis) != 0) return true;
    }
    return false;
  }

  detail::Mutex mutex_;  ///< of what is written
  const detail::Descriptor own_ = own_opening();
  const int descriptor_ = own_.is_open() ? own_.get() : STDERR_FILENO;
  std::atomic<SteadyTime> give_up_at_ = SteadyTime::max();
};

/// Lines that others have made.
class LineLogger final : public StreamLogger {
 public:
  LineLogger(std::ostream& out, const Clock& clock, const LogOptions& options)
      : StreamLogger(out, clock, options, &format) {}

 private:
  static void format(std::string& out, const Line& line) {
    // The one line with fields is the logger's own.
    if (!line.fields.empty()) out += "oncebox: some lines are missing here: ";
    out += line.text;
  }
};

std::unique_ptr<StreamLogger> make_logger(std::ostream& out, const LogSettings& settings,
                                          const Clock& clock) {
  const LogOptions options{.min_level = settings.level, .flush_interval = kFlushInterval};
  if (settings.format == LogFormat::json) return std::make_unique<JsonLogger>(out, clock, options);
  return std::make_unique<TextLogger>(out, clock, options);
}

}  // namespace

class ProcessLog::Stream {
 public:
  StderrBuffer buffer;
  std::ostream log{&buffer};
  std::ostream lines{&buffer};
};

ProcessLog::ProcessLog(const LogSettings& settings, const Clock& clock)
    : clock_(clock),
      stream_(std::make_unique<Stream>()),
      logger_(make_logger(stream_->log, settings, clock)) {}

Logger& ProcessLog::lines() {
  if (!lines_) {
    const LogOptions options{.flush_interval = kFlushInterval};
    lines_ = std::make_unique<LineLogger>(stream_->lines, clock_, options);
  }
  return *lines_;
}

ProcessLog::~ProcessLog() { stream_->buffer.give_up_in(kLastLinesPatience); }

}  // namespace oncebox::app
