#pragma once

#include <initializer_list>
#include <string_view>

#include "oncebox/log.hpp"
#include "oncebox/message.hpp"

namespace oncebox::detail {

/// What a log line is about.
struct MessageLine {
  LogLevel level = LogLevel::info;
  std::string_view text;
  std::string_view store;
  const Message& message;
};

/// Writes a line about one message. Every such line names it by the same fields: store, topic,
/// source and message_id; then come the `first` ones of the line; then correlation_id,
/// causation_id, partition and request_id, where the message has them; then the `last` ones. A line
/// that there is no memory for is dropped: it must not fail the work that it tells of.
void write_line(Logger& logger, const MessageLine& line, std::initializer_list<LogField> first = {},
                std::initializer_list<LogField> last = {}) noexcept;

}  // namespace oncebox::detail
