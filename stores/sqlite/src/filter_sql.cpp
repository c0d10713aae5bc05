#include "filter_sql.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "key_index.hpp"
#include "oncebox/sql/state_sql.hpp"
#include "oncebox/sql/storage_key.hpp"

namespace oncebox::sqlite {

namespace {

// The stages of a status, each in the words by which SQLite finds its partial index: numbers, no
// parameters, and the condition of the index itself.
std::vector<std::string_view> stages_of(Status status) {
  switch (status) {
    case Status::seen:
      return {"stage = 0 AND (stage IN (0, 2) OR stage = 6)"};
    case Status::processing:
      return {"stage = 1", "stage = 2 AND (stage IN (0, 2) OR stage = 6)", "stage = 3",
              "stage = 6 AND (stage IN (0, 2) OR stage = 6)"};
    case Status::done:
      return {"stage = 4 AND stage IN (4, 5)"};
    case Status::dead:
      return {"stage = 5 AND stage IN (4, 5)"};
  }
  return {};
}

std::int64_t milliseconds_of(TimePoint time) { return time.time_since_epoch().count(); }

}  // namespace

FilterSql::FilterSql(const MessageFilter& filter, std::string_view queue,
                     const FilterMoment& moment) {
  if (filter.source && filter.message_id) {
    const sql::StorageKey key = sql::storage_key(MessageKey{*filter.source, *filter.message_id});
    require(fmt::format("m.id IN ({})", ids_of_key(queue, "?")),
            Value(std::vector<std::uint8_t>(key.begin(), key.end())));
  }
  require_statuses(filter, queue);
  if (sql::asks_for_states(filter)) require_states(filter, moment);
  if (filter.topic) require_topic(*filter.topic);
  if (filter.source) require("m.source = ?", Value(filter.source->str()));
  if (filter.message_id) require("m.message_id = ?", Value(filter.message_id->str()));
  if (filter.partition_key) require("s.partition_key = ?", Value(filter.partition_key->str()));
  if (filter.error_contains) {
    require("instr(s.last_error, ?) > 0", Value(*filter.error_contains));
  }
  require_range("m.first_seen_at", filter.first_seen);
  require_range("s.finished_at", filter.finished);
  if (filter.expires_after) {
    require("(s.expires_at > ?) IS NOT FALSE", milliseconds_of(*filter.expires_after));
  }
}

void FilterSql::require(std::string_view condition) {
  where_ += where_.empty() ? "WHERE " : " AND ";
  where_ += condition;
}

void FilterSql::require(std::string_view condition, Value value) {
  std::string numbered(condition);
  numbered.replace(numbered.find('?'), 1, parameter(std::move(value)));
  require(numbered);
}

std::string FilterSql::parameter(Value value) {
  values_.push_back(std::move(value));
  return fmt::format("?{}", values_.size());
}

void FilterSql::require(std::string_view condition, std::int64_t value) {
  require(condition, Value(value));
}

// A union of what the partial indexes hold, so that what is done is not looked at unless it is
// asked for; nor what was finished at other times than those asked for.
void FilterSql::require_statuses(const MessageFilter& filter, std::string_view queue) {
  const std::vector<Status> statuses = sql::wanted_statuses(filter);
  if (statuses.empty()) return;
  std::string finished;
  if (filter.finished.from) {
    finished += " AND finished_at >= " + parameter(milliseconds_of(*filter.finished.from));
  }
  if (filter.finished.until) {
    finished += " AND finished_at < " + parameter(milliseconds_of(*filter.finished.until));
  }
  std::string ids;
  for (const Status status : statuses) {
    for (const std::string_view stage : stages_of(status)) {
      ids += ids.empty() ? "" : " UNION ALL ";
      ids += fmt::format("SELECT id FROM oncebox_{}_state WHERE {}{}", queue, stage, finished);
    }
  }
  require(fmt::format("s.id IN ({})", ids));
}

void FilterSql::require_states(const MessageFilter& filter, const FilterMoment& moment) {
  const std::string now = parameter(milliseconds_of(moment.now));
  const std::string paused = is_paused(moment.paused);
  require(sql::state_condition(filter, {.now = now, .due_at = "s.due_at", .paused = paused}));
}

std::string FilterSql::is_paused(std::span<const TopicPattern> paused) {
  if (paused.empty()) return "FALSE";
  std::string names;
  for (const TopicPattern& pattern : paused) {
    if (!names.empty()) names += " OR ";
    names += fmt::format(fmt::runtime(pattern.is_exact() ? "name = {}" : "instr(name, {}) = 1"),
                         parameter(std::string(pattern.stem())));
  }
  return fmt::format("s.topic IN (SELECT id FROM oncebox_topic WHERE {})", names);
}

void FilterSql::require_topic(const TopicPattern& pattern) {
  if (pattern.is_exact()) {
    require("s.topic = (SELECT id FROM oncebox_topic WHERE name = ?)", Value(pattern.str()));
    return;
  }
  const std::string stem(pattern.stem());
  require("s.topic IN (SELECT id FROM oncebox_topic WHERE instr(name, ?) = 1)", Value(stem));
}

void FilterSql::require_range(std::string_view column, const TimeRange& range) {
  if (range.from) require(fmt::format("{} >= ?", column), milliseconds_of(*range.from));
  if (range.until) require(fmt::format("{} < ?", column), milliseconds_of(*range.until));
}

void FilterSql::bind_to(Statement& statement) const {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const int parameter = static_cast<int>(i) + 1;
    if (const auto* number = std::get_if<std::int64_t>(&values_[i])) {
      statement.bind(parameter, *number);
    } else if (const auto* text = std::get_if<std::string>(&values_[i])) {
      statement.bind(parameter, std::string_view(*text));
    } else {
      statement.bind_blob(parameter, std::get<std::vector<std::uint8_t>>(values_[i]));
    }
  }
}

}  // namespace oncebox::sqlite
