#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "connection_pool.hpp"
#include "names.hpp"
#include "oncebox/queue_operator.hpp"

/// What is asked about a queue as a whole. These statements look at many rows, so they run with the
/// planner's own judgement, each with the values it was asked with.
namespace oncebox::postgresql {

/// Runs a statement for a report, on one snapshot, and answers its rows.
[[nodiscard]] Result run_report(ConnectionPool& pool, const std::string& sql,
                                const Parameters& parameters);

/// `now` is what a test says; otherwise the database's time counts. No lease that ended until
/// `lapsed` is left. Statistics leave pauses out.
[[nodiscard]] QueueStats read_stats(ConnectionPool& pool, const Names& names,
                                    std::string_view queue, std::optional<TimePoint> now);
[[nodiscard]] std::vector<WorkerRecord> read_workers(ConnectionPool& pool, const Names& names,
                                                     std::string_view queue,
                                                     std::optional<TimePoint> now);
[[nodiscard]] std::optional<TimePoint> read_next_due(ConnectionPool& pool, const Names& names,
                                                     std::string_view queue,
                                                     const TopicSelection& topics,
                                                     std::optional<TimePoint> now,
                                                     std::optional<TimePoint> lapsed);

}  // namespace oncebox::postgresql
