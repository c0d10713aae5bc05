#include "api/api_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <numeric>
#include <vector>

#include "api/ndjson_intake.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/queue_json.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

std::string_view health_word(HealthStatus status) {
  switch (status) {
    case HealthStatus::healthy:
      return "Healthy";
    case HealthStatus::degraded:
      return "Degraded";
    case HealthStatus::unavailable:
      return "Unavailable";
  }
  return "Unavailable";
}

static_assert(static_cast<std::size_t>(EnqueueStatus::quarantined) + 1 == IntakeSummary::kStatuses);

json::object capabilities_object(const Capabilities& capabilities) {
  return {{"durable", capabilities.durable},
          {"sharedBetweenProcesses", capabilities.shared_between_processes},
          {"joinsCallerTransaction", capabilities.joins_caller_transaction},
          {"notifies", capabilities.notifies},
          {"nativeTtl", capabilities.native_ttl},
          {"maxPayloadBytes", capabilities.max_payload_bytes}};
}

std::size_t unfinished(const TopicStats& topic) { return topic.unfinished() + topic.dead; }

/// The statistics of a queue with many topics, without those that have the least to do. The total
/// stays that of all.
std::string write_busiest(const QueueStats& stats) {
  std::vector<std::size_t> places(stats.topics.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const auto kept = places.begin() + kMaxSampledTopics;
  std::nth_element(places.begin(), kept, places.end(), [&](std::size_t left, std::size_t right) {
    return unfinished(stats.topics[left]) > unfinished(stats.topics[right]);
  });
  std::sort(places.begin(), kept);
  QueueStats busiest;
  for (auto place = places.begin(); place != kept; ++place) {
    busiest.topics.push_back(stats.topics[*place]);
  }
  json::object object = json::parse(wire::write_stats(busiest)).as_object();
  const QueueStats all{.topics = {stats.total()}};
  object["total"] = json::parse(wire::write_stats(all)).at("total");
  object.emplace("omittedTopics", stats.topics.size() - busiest.topics.size());
  return json::serialize(object);
}

void add_health(json::object& object, const Health& health) {
  object.emplace("health", health_word(health.status));
  if (health.detail.empty()) return;
  object.emplace("detail", clip_text(health.detail, limits::kMaxErrorBytes));
}

}  // namespace

std::string write_intake_summary(const IntakeSummary& summary) {
  json::object object{{"received", summary.received}};
  for (std::size_t i = 0; i < summary.statuses.size(); ++i) {
    object.emplace(wire::count_field(static_cast<EnqueueStatus>(i)), summary.statuses[i]);
  }
  object.emplace("hashMismatches", summary.hash_mismatches);
  object.emplace("failedCount", summary.failed);
  json::array failures;
  for (const IntakeSummary::Failure& failure : summary.failures) {
    failures.push_back(
        json::object{{"line", failure.line}, {"code", failure.code}, {"detail", failure.detail}});
  }
  object.emplace("failed", std::move(failures));
  return json::serialize(object);
}

std::string with_lines_stored(std::string_view problem, std::size_t lines) {
  json::object object = json::parse(problem).as_object();
  object.emplace("linesStored", lines);
  return json::serialize(object);
}

std::string write_stores(const StoresReport& report) {
  json::array list;
  for (const StoreReport& store : report.stores) {
    json::object entry{{"name", store.name},
                       {"default", store.is_default},
                       {"state", store.capabilities ? "Open" : "Down"}};
    add_health(entry, store.health);
    if (store.capabilities) {
      entry.emplace("capabilities", capabilities_object(*store.capabilities));
    }
    list.push_back(std::move(entry));
  }
  json::object discovery;
  add_health(discovery, report.discovery);
  json::object object{{"stores", std::move(list)}, {"discovery", std::move(discovery)}};
  if (report.next) object.emplace("next", *report.next);
  return json::serialize(object);
}

std::string write_refreshed(const RefreshResult& result) {
  const auto names = [](const std::vector<std::string>& all) {
    return json::array(all.begin(), all.end());
  };
  return json::serialize(json::object{{"added", names(result.added)},
                                      {"removed", names(result.removed)},
                                      {"reopened", names(result.reopened)},
                                      {"down", names(result.down)}});
}

std::string write_samples(std::span<const QueueSample> samples, TimePoint at) {
  std::string text = fmt::format(R"({{"at":"{}","queues":[)", format_rfc3339(at));
  std::string_view comma;
  for (const QueueSample& sample : samples) {
    fmt::format_to(std::back_inserter(text), R"({}{{"store":"{}","queue":"{}","stats":{}}})", comma,
                   sample.store, sample.queue,
                   sample.stats.topics.size() > kMaxSampledTopics
                       ? write_busiest(sample.stats)
                       : wire::write_stats(sample.stats));
    comma = ",";
  }
  return text + "]}";
}

std::string write_work_event(std::string_view store, std::string_view queue) {
  return fmt::format(R"({{"store":"{}","queue":"{}"}})", store, queue);
}

}  // namespace oncebox::server
