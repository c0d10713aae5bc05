#include "oncebox/internal/message_line.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "oncebox/defaults.hpp"

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
    fields.emplace_back("message_id",
                        line.stored_as != nullptr ? *line.stored_as : message.key.message_id);
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

namespace {

void write_by_key(Logger& logger, std::string_view store, const KeyLine& line) noexcept {
  const MessageKey& key = line.key;
  if (line.topic == nullptr) {
    logger.log(
        line.level, line.text,
        {{"store", store}, {"source", key.source}, {"message_id", key.message_id}, line.why});
    return;
  }
  logger.log(line.level, line.text,
             {{"store", store},
              {"topic", *line.topic},
              {"source", key.source},
              {"message_id", key.message_id},
              line.why});
}

// What the lines tell of has happened: a failure must not hide it.
std::vector<std::optional<MessageRecord>> look_up(QueueStore& queue,
                                                  std::span<const KeyLine> lines) noexcept {
  try {
    std::vector<MessageKey> keys;
    for (const KeyLine& line : lines.first(std::min(lines.size(), kMaxLookedUp))) {
      keys.push_back(line.key);
    }
    return queue.find_some(keys,
                           {.payloads = ListPayloads::omit, .max_bytes = defaults::kStepBytes});
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

void add_line(std::vector<KeyLine>& lines, const KeyLine& line) noexcept {
  try {
    lines.push_back(line);
  } catch (const std::bad_alloc&) {
    // What the line tells of has happened.
  }
}

void write_lines(Logger& logger, std::string_view store, std::span<const KeyLine> lines,
                 QueueStore* queue) noexcept {
  const bool is_wanted =
      std::ranges::any_of(lines, [&](const KeyLine& line) { return logger.enabled(line.level); });
  if (!is_wanted) return;
  std::vector<std::optional<MessageRecord>> records;
  if (queue != nullptr) records = look_up(*queue, lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const KeyLine& line = lines[i];
    const bool is_known = i < records.size() && records[i] && records[i]->message;
    if (is_known) {
      write_line(logger, {line.level, line.text, store, *records[i]->message}, {line.why});
    } else {
      write_by_key(logger, store, line);
    }
  }
}

}  // namespace oncebox::detail
