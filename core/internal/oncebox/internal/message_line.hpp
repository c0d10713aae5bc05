#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oncebox/log.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_store.hpp"

namespace oncebox::detail {

/// What a log line is about.
struct MessageLine {
  LogLevel level = LogLevel::info;
  std::string_view text;
  std::string_view store;
  const Message& message;
  const MessageId* stored_as = nullptr;  ///< null: by its own id
};

/// Writes a line about one message. Every such line names it by the same fields: store, topic,
/// source and message_id; then come the `first` ones of the line; then correlation_id,
/// causation_id, partition and request_id, where the message has them; then the `last` ones. A line
/// that there is no memory for is dropped: it must not fail the work that it tells of.
void write_line(Logger& logger, const MessageLine& line, std::initializer_list<LogField> first = {},
                std::initializer_list<LogField> last = {}) noexcept;

/// A line about a message of which only the key is at hand, and perhaps the topic.
struct KeyLine {
  LogLevel level = LogLevel::info;
  std::string_view text;
  const MessageKey& key;
  LogField why;
  const Topic* topic = nullptr;
};

/// Writes such lines as `write_line` does, with what `queue` knows of the first `kMaxLookedUp`
/// messages, as far as they have `defaults::kStepBytes` together. The others, and all when the
/// queue fails or is null, have what is at hand.
inline constexpr std::size_t kMaxLookedUp = 50;
void write_lines(Logger& logger, std::string_view store, std::span<const KeyLine> lines,
                 QueueStore* queue) noexcept;

/// Adds a line; one that there is no memory for is left out.
void add_line(std::vector<KeyLine>& lines, const KeyLine& line) noexcept;

/// The line about a death.
[[nodiscard]] inline KeyLine death_line(const MessageKey& key, std::string_view cause,
                                        const Topic* topic = nullptr) {
  return {LogLevel::warning, "message is dead", key, {"reason", cause}, topic};
}

}  // namespace oncebox::detail
