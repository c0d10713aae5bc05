#include "oncebox/wire/health_json.hpp"

#include <array>
#include <optional>

#include "json_reader.hpp"
#include "json_writer.hpp"
#include "oncebox/limits.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

void write_detail(JsonWriter& writer, std::string_view detail) {
  if (!detail.empty()) writer.field("detail", clip_text(detail, limits::kMaxErrorBytes));
}

void write_finding(JsonWriter& writer, const Finding& finding) {
  writer.begin_object().field("code", word_of(finding.code)).field("store", finding.store);
  if (!finding.queue.empty()) writer.field("queue", finding.queue);
  writer.field("topic", finding.topic).field("since", finding.since);
  writer.field("detail", finding.detail).end_object();
}

constexpr std::array<std::string_view, 4> kHealthFields = {"status", "stores", "findings",
                                                           "discovery"};
constexpr std::array<std::string_view, 3> kStoreFields = {"name", "health", "detail"};
constexpr std::array<std::string_view, 6> kFindingFields = {"code",  "store", "queue",
                                                            "topic", "since", "detail"};
constexpr std::size_t kMaxRead = 100'000;

Health read_store_health(const ObjectReader& fields) {
  return {.status = read_word<HealthStatus>(fields.require("health")),
          .detail = fields.get_or("detail", std::string())};
}

WatchedHealth read_store(const JsonValue& value) {
  const ObjectReader fields(value, kStoreFields, Direction::answer);
  return {.store = fields.require_as<std::string>("name"), .health = read_store_health(fields)};
}

Finding read_finding(const JsonValue& value) {
  const ObjectReader fields(value, kFindingFields, Direction::answer);
  return {.code = read_word<FindingCode>(fields.require("code")),
          .store = fields.require_as<std::string>("store"),
          .queue = fields.get_or("queue", std::string()),
          .topic = fields.get<Topic>("topic"),
          .since = fields.require_as<TimePoint>("since"),
          .detail = fields.get_or("detail", std::string())};
}

}  // namespace

ServiceHealth read_health(std::string_view json) {
  return read_object(json, kHealthFields, Direction::answer, [](const ObjectReader& fields) {
    ServiceHealth health{.report = {.status = read_word<HealthStatus>(fields.require("status")),
                                    .stores = {},
                                    .findings = {}}};
    fields.require("stores").for_each_item(kMaxRead, [&](const JsonValue& value) {
      health.report.stores.push_back(read_store(value));
    });
    fields.require("findings").for_each_item(kMaxRead, [&](const JsonValue& value) {
      health.report.findings.push_back(read_finding(value));
    });
    if (const std::optional<JsonValue> discovery = fields.find("discovery")) {
      health.discovery =
          read_store_health(ObjectReader(*discovery, kStoreFields, Direction::answer));
    }
    return health;
  });
}

std::string write_health(const WatchdogReport& report, const Health& discovery) {
  const bool is_found = discovery.status == HealthStatus::healthy;
  JsonWriter writer;
  writer.begin_object().field("status", word_of(is_found ? report.status : HealthStatus::degraded));
  write_detail(writer, report.detail());
  if (!is_found) {
    writer.key("discovery").begin_object().field("health", word_of(discovery.status));
    write_detail(writer, discovery.detail);
    writer.end_object();
  }
  writer.key("stores").begin_array();
  for (const WatchedHealth& one : report.stores) {
    writer.begin_object().field("name", one.store);
    writer.field("health", word_of(one.health.status));
    write_detail(writer, one.health.detail);
    writer.end_object();
  }
  writer.end_array().key("findings").begin_array();
  for (const Finding& finding : report.findings) write_finding(writer, finding);
  writer.end_array().end_object();
  return std::move(writer).take();
}

}  // namespace oncebox::wire
