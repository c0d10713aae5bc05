#include "oncebox/wire/worker_json.hpp"

#include "batch_json.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 1> kWorkersField = {"workers"};
constexpr std::array<std::string_view, 4> kWorkerFields = {"name", "leases", "since", "lastSeen"};

}  // namespace

std::string write_workers(std::span<const WorkerRecord> workers) {
  return write_batch("workers", workers, [](JsonWriter& writer, const WorkerRecord& worker) {
    writer.begin_object()
        .field("name", worker.name)
        .field("leases", worker.leases)
        .field("since", worker.since)
        .field("lastSeen", worker.last_seen_at)
        .end_object();
  });
}

std::vector<WorkerRecord> read_workers(std::string_view json) {
  return read_object(json, kWorkersField, Direction::answer, [](const ObjectReader& answer) {
    return read_array<WorkerRecord>(answer.require("workers"), [](const JsonValue& value) {
      const ObjectReader fields(value, kWorkerFields, Direction::answer);
      return WorkerRecord{.name = fields.require_as<WorkerName>("name"),
                          .leases = fields.require_as<std::size_t>("leases"),
                          .since = fields.require_as<TimePoint>("since"),
                          .last_seen_at = fields.require_as<TimePoint>("lastSeen")};
    });
  });
}

}  // namespace oncebox::wire
