#include "filter_options.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "values.hpp"

namespace oncebox::app {
namespace {

constexpr Choice<Status> kStatuses[] = {{"seen", Status::seen},
                                        {"processing", Status::processing},
                                        {"done", Status::done},
                                        {"dead", Status::dead}};

constexpr Choice<State> kStates[] = {{"seen", State::seen},   {"waiting", State::waiting},
                                     {"ready", State::ready}, {"leased", State::leased},
                                     {"done", State::done},   {"dead", State::dead}};

constexpr Choice<WaitingFor> kReasons[] = {{"content", WaitingFor::content},
                                           {"partition", WaitingFor::partition},
                                           {"due", WaitingFor::due},
                                           {"backoff", WaitingFor::backoff},
                                           {"pause", WaitingFor::pause}};

/// Adds each value that is given.
template <class Enum, std::size_t Count>
TakeValue each_into(std::vector<Enum>& target, const Choice<Enum> (&choices)[Count]) {
  return [&target, &choices](const std::string& text) {
    Enum taken{};
    into(taken, choices)(text);
    target.push_back(taken);
  };
}

TakeValue past_into(std::optional<TimePoint>& target, TimePoint now) {
  return [&target, now](const std::string& text) { target = parse_past(text, now); };
}

}  // namespace

std::vector<Option> filter_options(FilterOptions& options, StatusOption status, TimePoint now) {
  MessageFilter& filter = options.filter;
  std::vector<Option> result;
  if (status == StatusOption::offered) {
    result = {{.names = "--state",
               .value = "STATE",
               .text = "only messages in this state",
               .take = each_into(filter.states, kStates),
               .occurs = Occurs::repeatedly,
               .choices = words_of(kStates)},
              {.names = "--waiting-for",
               .value = "WHAT",
               .text = "of the waiting messages only those that wait for this",
               .take = each_into(filter.waiting_for, kReasons),
               .occurs = Occurs::repeatedly,
               .choices = words_of(kReasons)},
              {.names = "--status",
               .value = "STATUS",
               .text = "only messages with this status: processing is waiting, ready or leased",
               .take = each_into(filter.statuses, kStatuses),
               .occurs = Occurs::repeatedly,
               .choices = words_of(kStatuses)}};
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
  std::ranges::move(others, std::back_inserter(result));
  for (Option& option : result) {
    option.take = [&options, take = std::move(option.take)](const std::string& text) {
      take(text);
      options.given = true;
    };
  }
  return result;
}

}  // namespace oncebox::app
