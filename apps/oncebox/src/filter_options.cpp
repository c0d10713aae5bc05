#include "filter_options.hpp"

#include <utility>

#include "values.hpp"

namespace oncebox::app {
namespace {

constexpr Choice<Status> kStatuses[] = {{"seen", Status::seen},
                                        {"processing", Status::processing},
                                        {"done", Status::done},
                                        {"dead", Status::dead}};

TakeValue past_into(std::optional<TimePoint>& target, TimePoint now) {
  return [&target, now](const std::string& text) { target = parse_past(text, now); };
}

}  // namespace

std::vector<Option> filter_options(FilterOptions& options, StatusOption status, TimePoint now) {
  MessageFilter& filter = options.filter;
  std::vector<Option> result;
  if (status == StatusOption::offered) {
    result.push_back({.names = "--status",
                      .value = "STATUS",
                      .text = "only messages with this status",
                      .take =
                          [&filter](const std::string& text) {
                            Status taken = Status::seen;
                            into(taken, kStatuses)(text);
                            filter.statuses.push_back(taken);
                          },
                      .occurs = Occurs::repeatedly,
                      .choices = words_of(kStatuses)});
  }
  std::vector<Option> others{
      {.names = "-t,--topic",
       .value = "TOPIC",
       .text = "only this topic; order.* means all that begin with order.",
       .take = [&filter](const std::string& text) { filter.topic = TopicPattern(text); }},
      {.names = "-s,--source",
       .value = "SOURCE",
       .text = "only from this source",
       .take = into(filter.source)},
      {.names = "--partition-key",
       .value = "KEY",
       .text = "only with this partition key",
       .take = into(filter.partition_key)},
      {.names = "--error",
       .value = "TEXT",
       .text = "only where the last error contains this text",
       .take = into(filter.error_contains)},
      {.names = "--seen-since",
       .value = "TIME",
       .text = "only first seen at or after this time; 2h means two hours ago",
       .take = past_into(filter.first_seen.from, now)},
      {.names = "--seen-before",
       .value = "TIME",
       .text = "only first seen before this time",
       .take = past_into(filter.first_seen.until, now)},
      {.names = "--finished-since",
       .value = "TIME",
       .text = "only done or dead since this time",
       .take = past_into(filter.finished.from, now)},
      {.names = "--finished-before",
       .value = "TIME",
       .text = "only done or dead before this time",
       .take = past_into(filter.finished.until, now)},
  };
  for (Option& option : others) {
    option.take = [&options, take = std::move(option.take)](const std::string& text) {
      take(text);
      options.given = true;
    };
    result.push_back(std::move(option));
  }
  return result;
}

}  // namespace oncebox::app
