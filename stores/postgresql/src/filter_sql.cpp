#include "filter_sql.hpp"

#include <fmt/format.h>

#include <utility>

#include "oncebox/sql/state_sql.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "selection.hpp"

namespace oncebox::postgresql {

namespace {

std::string_view stages_of(Status status) {
  switch (status) {
    case Status::seen:
      return "0";
    case Status::processing:
      return "1, 2, 3, 6, 7";
    case Status::done:
      return "4";
    case Status::dead:
      return "5";
  }
  return "0";
}

}  // namespace

FilterSql::FilterSql(const MessageFilter& filter, const FilterMoment& moment) : moment_(moment) {
  if (filter.source && filter.message_id) {
    require_value("m.key = ?::uuid",
                  sql::storage_key(MessageKey{*filter.source, *filter.message_id}));
  }
  require_statuses(sql::wanted_statuses(filter));
  if (sql::asks_for_states(filter)) require_states(filter);
  if (filter.topic) {
    require_value(filter.topic->is_exact() ? "m.topic = ?::text" : "starts_with(m.topic, ?::text)",
                  filter.topic->stem());
  }
  if (filter.source) require_value("m.source = ?::text", std::string_view(filter.source->str()));
  if (filter.message_id) {
    require_value("m.message_id = ?::text", std::string_view(filter.message_id->str()));
  }
  if (filter.partition_key) {
    require_value("m.partition_key = ?::text", std::string_view(filter.partition_key->str()));
  }
  if (filter.error_contains) {
    require_value("strpos(s.last_error, ?::text) > 0", std::string_view(*filter.error_contains));
  }
  require_range("m.first_seen_at", filter.first_seen);
  require_range("s.finished_at", filter.finished);
  if (filter.expires_after) {
    require_value("(m.expires_at > ?::timestamptz) IS NOT FALSE", *filter.expires_after);
  }
}

void FilterSql::require(std::string_view condition) {
  where_ += where_.empty() ? "WHERE " : " AND ";
  where_ += condition;
}

template <class Value>
void FilterSql::require_value(std::string_view condition, const Value& value) {
  std::string numbered(condition);
  numbered.replace(numbered.find('?'), 1, parameter(value));
  require(numbered);
}

template <class Value>
std::string FilterSql::parameter(Value&& value) {
  parameters_.add(std::forward<Value>(value));
  return fmt::format("${}", parameters_.values().size());
}

// As in other reports: the time at which the transaction began.
const std::string& FilterSql::now() {
  if (now_.empty()) {
    now_ = fmt::format("coalesce({}::timestamptz, date_trunc('milliseconds', now()))",
                       parameter(moment_.now));
  }
  return now_;
}

void FilterSql::require_states(const MessageFilter& filter) {
  std::string paused = "FALSE";
  if (!moment_.paused.empty()) {
    const std::string names = parameter(exact_names(moment_.paused));
    const std::string stems = parameter(stems_of(moment_.paused));
    paused = fmt::format(
        "(m.topic = ANY({}::text[]) OR EXISTS "
        "(SELECT FROM unnest({}::text[]) p(stem) WHERE starts_with(m.topic, p.stem)))",
        names, stems);
  }
  require(sql::state_condition(filter, {.now = now(), .due_at = "m.due_at", .paused = paused}));
}

void FilterSql::require(std::string_view condition, std::int64_t value) {
  require_value(condition, value);
}

void FilterSql::require_statuses(const std::vector<Status>& statuses) {
  if (statuses.empty()) return;
  std::string stages;
  for (const Status status : statuses) {
    if (!stages.empty()) stages += ", ";
    stages += stages_of(status);
  }
  require(fmt::format("s.stage IN ({})", stages));
}

void FilterSql::require_range(std::string_view column, const TimeRange& range) {
  if (range.from) require_value(fmt::format("{} >= ?::timestamptz", column), *range.from);
  if (range.until) require_value(fmt::format("{} < ?::timestamptz", column), *range.until);
}

}  // namespace oncebox::postgresql
