#include "oncebox/internal/message_line.hpp"

#include <new>
#include <optional>
#include <vector>

namespace oncebox::detail {

void write_line(Logger& logger, const MessageLine& line, std::initializer_list<LogField> first,
                std::initializer_list<LogField> last) noexcept {
  if (!logger.enabled(line.level)) return;
  const Message& message = line.message;
  try {
    constexpr std::size_t kCommonFields = 8;
    std::vector<LogField> fields;
    fields.reserve(kCommonFields + first.size() + last.size());
    fields.emplace_back("store", line.store);
    fields.emplace_back("topic", message.topic);
    fields.emplace_back("source", message.key.source);
    fields.emplace_back("message_id", message.key.message_id);
    fields.insert(fields.end(), first);
    const auto add = [&](std::string_view name, std::optional<std::string_view> value) {
      if (value) fields.emplace_back(name, *value);
    };
    add("correlation_id", message.headers.correlation_id());
    add("causation_id", message.headers.causation_id());
    if (message.partition_key) fields.emplace_back("partition", *message.partition_key);
    if (!message.request_id.empty()) fields.emplace_back("request_id", message.request_id);
    fields.insert(fields.end(), last);
    logger.write(line.level, line.text, fields);
  } catch (const std::bad_alloc&) {
    // As the header says.
  }
}

}  // namespace oncebox::detail
