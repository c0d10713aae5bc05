#include "filter_sql.hpp"

#include <fmt/format.h>

#include "oncebox/sql/storage_key.hpp"

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

FilterSql::FilterSql(const MessageFilter& filter) {
  if (filter.source && filter.message_id) {
    require_value("m.key = ?::uuid",
                  sql::storage_key(MessageKey{*filter.source, *filter.message_id}));
  }
  require_statuses(filter.statuses);
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
}

void FilterSql::require(std::string_view condition) {
  where_ += where_.empty() ? "WHERE " : " AND ";
  where_ += condition;
}

template <class Value>
void FilterSql::require_value(std::string_view condition, const Value& value) {
  parameters_.add(value);
  std::string numbered(condition);
  numbered.replace(numbered.find('?'), 1, fmt::format("${}", parameters_.values().size()));
  require(numbered);
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
