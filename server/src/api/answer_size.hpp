#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "oncebox/defaults.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_store.hpp"

/// How much of a store the service holds at a time: so no call fills the memory.
namespace oncebox::server {

/// Payloads and what comes with them, in one answer. The first message is there whatever its size.
inline constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;

/// Calls `visit(record)` with what is stored under each key, without payloads, or with nothing.
template <class Visit>
void look_up(QueueStore& queue, std::span<const MessageKey> keys, Visit visit) {
  while (!keys.empty()) {
    const auto found =
        queue.find_some(keys, {.payloads = ListPayloads::omit, .max_bytes = defaults::kStepBytes});
    for (const std::optional<MessageRecord>& record : found) visit(record);
    keys = keys.subspan(found.size());
  }
}

/// How many of the keys have a record for which `holds(record)` is true.
template <class Holds>
[[nodiscard]] std::size_t count_found(QueueStore& queue, std::span<const MessageKey> keys,
                                      Holds holds) {
  std::size_t count = 0;
  look_up(queue, keys, [&](const std::optional<MessageRecord>& record) {
    if (record && holds(*record)) ++count;
  });
  return count;
}

}  // namespace oncebox::server
