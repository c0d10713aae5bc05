#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/names.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox {

enum class LogLevel { debug, info, warning, error };

[[nodiscard]] std::string_view to_string(LogLevel level) noexcept;

/// One named value of a log line, borrowed from the caller for the length of the call. Names, ids,
/// numbers, durations and short texts; a `Payload` cannot be made one, which keeps payloads out of
/// every log.
class LogField {
 public:
  using Value = std::variant<std::int64_t, double, bool, std::string_view, Uuid>;

  LogField(std::string_view name, std::string_view text) : name_(name), value_(text) {}
  LogField(std::string_view name, const char* text) : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, const std::string& text)
      : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, bool flag) : name_(name), value_(flag) {}
  LogField(std::string_view name, double number) : name_(name), value_(number) {}
  LogField(std::string_view name, Duration duration)
      : name_(name), value_(static_cast<std::int64_t>(duration.count())) {}
  template <std::integral Integer>
  LogField(std::string_view name, Integer number)
      : name_(name), value_(static_cast<std::int64_t>(number)) {}
  template <class Tag>
  LogField(std::string_view name, const Name<Tag>& text) : LogField(name, text.str()) {}
  template <class Tag>
  LogField(std::string_view name, const UuidId<Tag>& id) : name_(name), value_(id.uuid()) {}

  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] const Value& value() const noexcept { return value_; }

 private:
  std::string_view name_;
  Value value_;
};

/// Where log lines go. Implementations are safe to call from any thread and do not throw; what they
/// are given is valid only during the call.
class Logger {
 public:
  virtual ~Logger() = default;

  [[nodiscard]] virtual bool enabled(LogLevel level) const noexcept = 0;
  /// Called only for enabled levels.
  virtual void write(LogLevel level, std::string_view text,
                     std::span<const LogField> fields) noexcept = 0;
  /// How many lines could not be written since it was made; for metrics.
  [[nodiscard]] virtual std::uint64_t dropped_lines() const noexcept { return 0; }

  void log(LogLevel level, std::string_view text, std::initializer_list<LogField> fields) noexcept {
    if (enabled(level)) write(level, text, {fields.begin(), fields.size()});
  }
};

/// Drops everything.
class NullLogger final : public Logger {
 public:
  [[nodiscard]] bool enabled(LogLevel) const noexcept override { return false; }
  void write(LogLevel, std::string_view, std::span<const LogField>) noexcept override {}
};

struct LogOptions {
  LogLevel min_level = LogLevel::info;
  /// Zero: the thread that logs writes its line, and waits while the stream does. Otherwise a
  /// thread of the logger writes them all, and nobody waits for it: lines below `warning` after
  /// this interval, so that many of them cost little; warnings and errors at once, with all that
  /// waits.
  Duration flush_interval{0};
};

/// What the loggers below share: one line for each call, to a stream.
///
/// With a `flush_interval` up to 4 MiB of lines wait while the stream takes none. More are dropped
/// and counted, and the next line that is written after them says how many: `log lines dropped`.
/// The same goes for lines that the stream refused.
class StreamLogger : public Logger {
 public:
  /// Writes what still waits, and waits for the stream.
  ~StreamLogger() override;
  StreamLogger(const StreamLogger&) = delete;
  StreamLogger& operator=(const StreamLogger&) = delete;

  [[nodiscard]] bool enabled(LogLevel level) const noexcept override {
    return level >= min_level_.load(std::memory_order_relaxed);
  }
  /// Holds for every later line.
  void set_min_level(LogLevel level) noexcept { min_level_ = level; }

  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept final;
  [[nodiscard]] std::uint64_t dropped_lines() const noexcept final { return dropped_; }
  /// Writes what waits, on this thread.
  void flush() noexcept;

 protected:
  struct Line {
    TimePoint time;
    LogLevel level;
    std::string_view text;
    std::span<const LogField> fields;
  };
  /// Appends the line, without its end. Not virtual: the last lines are written when the derived
  /// part is gone.
  using Format = void (*)(std::string& out, const Line& line);

  /// Stream and clock are borrowed and must outlive the logger.
  StreamLogger(std::ostream& out, const Clock& clock, const LogOptions& options, Format format);

 private:
  void leave_to_the_flusher(LogLevel level, std::string_view line);
  void drop(std::uint64_t lines) noexcept;
  void append_dropped(std::string& lines, std::uint64_t count) const;
  /// The work of the flusher, until the logger is destroyed.
  void flush_often();

  detail::Mutex out_mutex_;  ///< taken before the other one
  std::ostream& out_ ONCEBOX_GUARDED_BY(out_mutex_);
  const Clock& clock_;
  const Duration flush_interval_;
  const Format format_;
  std::atomic<LogLevel> min_level_;

  detail::Mutex mutex_;
  detail::TimedCondition changed_;  ///< there are lines, some urgent, or the end has come
  std::string waiting_ ONCEBOX_GUARDED_BY(mutex_);
  bool is_urgent_ ONCEBOX_GUARDED_BY(mutex_) = false;    ///< what waits should wait no longer
  std::uint64_t untold_ ONCEBOX_GUARDED_BY(mutex_) = 0;  ///< of those dropped
  std::atomic<std::uint64_t> dropped_ = 0;
  bool ends_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::jthread flusher_;  // last: it uses the members above
};

/// One line for each call: `2026-01-31T08:15:30.250Z info enqueued topic=payment.received count=1`.
/// Texts of other than printable ASCII, and those with spaces or quotes, are quoted; control
/// characters and characters that turn the direction of text are escaped, so that no value can
/// forge a line or deceive who reads it.
class TextLogger final : public StreamLogger {
 public:
  TextLogger(std::ostream& out, const Clock& clock, LogLevel min_level = LogLevel::info)
      : TextLogger(out, clock, LogOptions{.min_level = min_level}) {}
  TextLogger(std::ostream& out, const Clock& clock, const LogOptions& options)
      : StreamLogger(out, clock, options, &format) {}

 private:
  static void format(std::string& out, const Line& line);
};

/// One JSON object for each call, on a line of its own: `{"time":"2026-01-31T08:15:30.250Z",
/// "level":"info","message":"enqueued","topic":"payment.received","count":1}`. What is not UTF-8
/// is replaced by U+FFFD; control and direction characters are escaped.
class JsonLogger final : public StreamLogger {
 public:
  JsonLogger(std::ostream& out, const Clock& clock, const LogOptions& options = {})
      : StreamLogger(out, clock, options, &format) {}

 private:
  static void format(std::string& out, const Line& line);
};

}  // namespace oncebox
