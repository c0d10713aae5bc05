#pragma once

#include <optional>
#include <span>
#include <string>

#include "oncebox/idempotency_store.hpp"
#include "oncebox/queue_operator.hpp"
#include "output.hpp"

/// Messages, statistics and keys as people read them.
namespace oncebox::app {

/// One line for each message.
void print_messages(Output& out, std::span<const MessageRecord> records);

/// Everything about one message, its payload at the end with nothing in it that could drive a
/// terminal.
void print_message(Output& out, const MessageRecord& record);

/// One line for each topic, and one for all of them.
void print_stats(Output& out, const QueueStats& stats, TimePoint now);

/// One line for each worker.
void print_workers(Output& out, std::span<const WorkerRecord> workers, TimePoint now);

void print_key(Output& out, const KeyRecord& record, TimePoint now);

/// "2026-01-31 08:15:30", in UTC.
[[nodiscard]] std::string short_time(TimePoint time);
/// "5s", "3m", "2h", "4d": how long ago, in one unit.
[[nodiscard]] std::string age(TimePoint time, TimePoint now);
/// "1,234,567"
[[nodiscard]] std::string grouped(std::size_t number);

}  // namespace oncebox::app
