#include "postgresql_audit.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "oncebox/driver/list_cursor.hpp"
#include "oncebox/sql/read_rows.hpp"
#include "queue_sql.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

namespace {

std::string insert_sql(const Names& names) {
  return names.fill(fmt::format(R"sql(
INSERT INTO {{audit}} (actor, action, part, subject, reason, begun_at)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, {})
RETURNING id)sql",
                                now_sql("$6")));
}

std::string finish_sql(const Names& names) {
  return names.fill(fmt::format(R"sql(
UPDATE {{audit}} SET finished_at = {}, status = $2::text, changed = $3::bigint, detail = $4::text
 WHERE id = $1::bigint AND status IS NULL)sql",
                                now_sql("$5")));
}

// A condition that is not given is NULL.
constexpr std::string_view kSelect = R"sql(
SELECT id, actor, action, part, subject, reason, begun_at, finished_at, status, changed, detail
  FROM {audit}
 WHERE ($1::bigint IS NULL OR id < $1) AND ($2::text IS NULL OR actor = $2)
   AND (cardinality($3::text[]) = 0 OR action = ANY($3))
   AND ($4::timestamptz IS NULL OR begun_at >= $4) AND ($5::timestamptz IS NULL OR begun_at < $5)
 ORDER BY id DESC LIMIT $6::integer)sql";

std::string forget_sql(const Names& names) {
  return names.fill(fmt::format(R"sql(
WITH old AS MATERIALIZED (
  SELECT id FROM {{audit}}
   WHERE begun_at <= {} - $2::bigint * interval '1 millisecond' AND status IS NOT NULL
   ORDER BY begun_at LIMIT $3::integer FOR UPDATE SKIP LOCKED)
DELETE FROM {{audit}} WHERE id = ANY(ARRAY(SELECT id FROM old)))sql",
                                now_sql("$1")));
}

}  // namespace

PostgresqlAudit::PostgresqlAudit(ConnectionPool& pool, const Names& names, const Clock* clock)
    : pool_(pool),
      clock_(clock),
      insert_{"audit_insert", insert_sql(names)},
      finish_{"audit_finish", finish_sql(names)},
      select_{"audit_select", names.fill(kSelect)},
      forget_{"audit_forget", forget_sql(names)} {}

std::optional<TimePoint> PostgresqlAudit::test_time() const {
  return clock_ != nullptr ? std::optional(clock_->now()) : std::nullopt;
}

AuditId PostgresqlAudit::do_begin(const AuditEntry& entry) {
  const Parameters values = Parameters()
                                .add(entry.actor)
                                .add(to_string(entry.action))
                                .add(to_string(entry.part))
                                .add(entry.subject)
                                .add(entry.reason)
                                .add(test_time());
  const Result inserted = run_alone(pool_, insert_, values, Exchange::commits);
  return AuditId{static_cast<std::uint64_t>(inserted.int64(0, 0))};
}

void PostgresqlAudit::do_finish(AuditId id, const AuditResult& result) {
  const Parameters values = Parameters()
                                .add(static_cast<std::int64_t>(id))
                                .add(to_string(result.status))
                                .add(static_cast<std::int64_t>(result.changed))
                                .add(result.detail)
                                .add(test_time());
  run_alone(pool_, finish_, values, Exchange::commits);
}

AuditPage PostgresqlAudit::do_list(const AuditListRequest& request) {
  const AuditFilter& filter = request.filter;
  ArrayValue actions(SqlType::text);
  for (const AuditAction action : filter.actions) actions.add(to_string(action));
  Parameters values;
  if (request.after) {
    values.add(static_cast<std::int64_t>(number_of(*request.after, ListOrder::newest_first)));
  } else {
    values.add_null();
  }
  values.add(filter.actor)
      .add(std::move(actions))
      .add(filter.begun.from)
      .add(filter.begun.until)
      .add(static_cast<std::int32_t>(request.limit + 1));
  const Result rows = run_alone(pool_, select_, values, Exchange::changes_nothing);
  AuditPage page;
  for (int row = 0; row < rows.rows(); ++row) {
    if (!sql::add_to_page(page, ResultRow(rows, row), request.limit)) break;
  }
  return page;
}

std::size_t PostgresqlAudit::do_cleanup(const AuditCleanupRequest& request) {
  const Parameters values = Parameters()
                                .add(test_time())
                                .add(std::int64_t{request.retention.count()})
                                .add(static_cast<std::int32_t>(request.limit));
  return run_alone(pool_, forget_, values, Exchange::commits).changed();
}

}  // namespace oncebox::postgresql
