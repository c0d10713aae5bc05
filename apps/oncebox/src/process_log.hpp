#pragma once

#include <memory>

#include "config/config.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"

namespace oncebox::app {

/// The log of a process that serves or works, on standard error, and lines of others there. Threads
/// of their own write both, so that a reader that stalls holds up nothing: see `StreamLogger`.
class ProcessLog {
 public:
  /// The clock is borrowed.
  ProcessLog(const LogSettings& settings, const Clock& clock);
  /// Writes the last lines, as far as the reader takes them within a second.
  ~ProcessLog();
  ProcessLog(const ProcessLog&) = delete;
  ProcessLog& operator=(const ProcessLog&) = delete;

  [[nodiscard]] StreamLogger& logger() noexcept { return *logger_; }

  /// Writes the texts of its lines as they are, whatever their level: for what commands and people
  /// are to read there. Made by the first call; not to be called from two threads at once.
  [[nodiscard]] Logger& lines();

 private:
  class Stream;
  const Clock& clock_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StreamLogger> logger_;
  std::unique_ptr<StreamLogger> lines_;
};

}  // namespace oncebox::app
