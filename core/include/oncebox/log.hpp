#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "oncebox/clock.hpp"
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

/// One line for each call: `2026-01-31T08:15:30.250Z info enqueued topic=payment.received count=1`.
/// Texts with spaces, quotes or control characters are quoted and escaped, so that no value can
/// forge a line.
class TextLogger final : public Logger {
 public:
  /// Both are borrowed and must outlive the logger.
  TextLogger(std::ostream& out, const Clock& clock, LogLevel min_level = LogLevel::info)
      : out_(out), clock_(clock), min_level_(min_level) {}

  [[nodiscard]] bool enabled(LogLevel level) const noexcept override { return level >= min_level_; }
  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept override;

 private:
  std::mutex mutex_;
  std::ostream& out_;
  const Clock& clock_;
  LogLevel min_level_;
};

}  // namespace oncebox
