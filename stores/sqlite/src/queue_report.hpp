#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "connection.hpp"
#include "oncebox/queue_operator.hpp"

/// What can be read off a queue without changing it, on a reader's connection.
namespace oncebox::sqlite {

/// See `QueueStore::next_due`.
[[nodiscard]] std::optional<TimePoint> read_next_due(Connection& reader, std::string_view queue,
                                                     const TopicSelection& topics, TimePoint now);

/// See `QueueOperator::workers`.
[[nodiscard]] std::vector<WorkerRecord> read_workers(Connection& reader, std::string_view queue,
                                                     TimePoint now);

/// See `QueueOperator::stats`; pauses are left out.
[[nodiscard]] QueueStats read_stats(Connection& reader, std::string_view queue, TimePoint now);

}  // namespace oncebox::sqlite
