#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

/// Keeps the log readable while many messages pass: of the lines about single messages, which have
/// a field `message_id`, only so many of a kind are written in a second; a second later one line
/// says how many more there were. A kind is a line's text. Its level does not matter: an endpoint
/// that refuses a hundred thousand deliveries makes as many errors. All other lines pass.
///
/// `MessageLog::off` also drops those at info and below, and counts them nowhere.
class MessageLogFilter final : public Logger {
 public:
  static constexpr std::size_t kLinesPerSecond = 50;

  /// Logger and clock are borrowed.
  MessageLogFilter(Logger& below, MessageLog mode, const Clock& clock);
  /// Says what was left out and not told yet.
  ~MessageLogFilter() override;
  MessageLogFilter(const MessageLogFilter&) = delete;
  MessageLogFilter& operator=(const MessageLogFilter&) = delete;

  [[nodiscard]] bool enabled(LogLevel level) const noexcept override {
    return below_.enabled(level);
  }
  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept override;

 private:
  struct Kind {
    LogLevel level = LogLevel::info;
    SteadyTime second_ends = {};
    std::size_t written = 0;   ///< in this second
    std::size_t left_out = 0;  ///< and not told
    SteadyTime tell_at = {};   ///< when the second ended in which the first of them was left out
  };
  struct LeftOut {
    std::string text;
    LogLevel level = LogLevel::info;
    std::size_t count = 0;
  };

  [[nodiscard]] bool admits(LogLevel level, std::string_view text);
  /// The work of the teller, until the end.
  void tell_often() noexcept;
  [[nodiscard]] SteadyTime next_telling() const ONCEBOX_REQUIRES(mutex_);
  /// Of the kinds that are to be told by then.
  [[nodiscard]] std::vector<LeftOut> take_left_out(SteadyTime until) noexcept
      ONCEBOX_REQUIRES(mutex_);
  void tell(const std::vector<LeftOut>& all) noexcept;

  Logger& below_;
  const MessageLog mode_;
  const Clock& clock_;
  detail::Mutex mutex_;
  detail::TimedCondition changed_;  ///< lines are left out, or the end has come
  /// By their text: texts are ours, so there are few.
  std::map<std::string, Kind, std::less<>> kinds_ ONCEBOX_GUARDED_BY(mutex_);
  bool ends_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::jthread teller_;  // last: it uses the members above
};

}  // namespace oncebox::server
