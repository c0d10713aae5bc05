#include "sqlite_audit.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "oncebox/driver/list_cursor.hpp"
#include "oncebox/sql/read_rows.hpp"

namespace oncebox::sqlite {

namespace {

// Parameters are numbered in the order in which they stand here, and bound in that order.
std::string select_page(const AuditListRequest& request) {
  const AuditFilter& filter = request.filter;
  std::string where = "WHERE true";
  if (request.after) where += " AND id < :after";
  if (filter.actor) where += " AND actor = :actor";
  if (!filter.actions.empty()) where += " AND action IN (SELECT value FROM json_each(:actions))";
  if (filter.begun.from) where += " AND begun_at >= :from";
  if (filter.begun.until) where += " AND begun_at < :until";
  // One more than asked for tells whether there is a next page.
  return fmt::format(R"sql(
SELECT id, actor, action, part, subject, reason, begun_at, finished_at, status, changed, detail
  FROM oncebox_audit {} ORDER BY id DESC LIMIT {})sql",
                     where, request.limit + 1);
}

// As a JSON array; the words need no escape.
std::string actions_json(const std::vector<AuditAction>& actions) {
  std::string json;
  for (const AuditAction action : actions) {
    json += fmt::format("{}\"{}\"", json.empty() ? "[" : ",", to_string(action));
  }
  return json + "]";
}

}  // namespace

SqliteAudit::SqliteAudit(Connection& writer_connection, Writer& writer, ReaderPool& readers,
                         const Clock& clock)
    : connection_(writer_connection),
      writer_(writer),
      readers_(readers),
      clock_(clock),
      insert_(writer_connection.prepare(R"sql(
INSERT INTO oncebox_audit (actor, action, part, subject, reason, begun_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6))sql")),
      finish_(writer_connection.prepare(R"sql(
UPDATE oncebox_audit SET finished_at = ?2, status = ?3, changed = ?4, detail = ?5
 WHERE id = ?1 AND status IS NULL)sql")),
      forget_(writer_connection.prepare(R"sql(
DELETE FROM oncebox_audit WHERE id IN (
  SELECT id FROM oncebox_audit WHERE begun_at <= ?1 AND status IS NOT NULL
   ORDER BY begun_at LIMIT ?2))sql")) {}

AuditId SqliteAudit::do_begin(const AuditEntry& entry) {
  return writer_.run(Flush::required, [&] {
    const ResetLater reset(insert_);
    insert_.bind(1, std::string_view(entry.actor))
        .bind(2, to_string(entry.action))
        .bind(3, to_string(entry.part))
        .bind(4, std::string_view(entry.subject))
        .bind(5, std::string_view(entry.reason))
        .bind(6, clock_.now())
        .run();
    return AuditId{static_cast<std::uint64_t>(connection_.last_insert_id())};
  });
}

void SqliteAudit::do_finish(AuditId id, const AuditResult& result) {
  // Losing it in a power cut leaves an entry without a result, which says what is true then.
  (void)writer_.run(Flush::may_wait, [&] {
    const ResetLater reset(finish_);
    finish_.bind(1, static_cast<std::int64_t>(id))
        .bind(2, clock_.now())
        .bind(3, to_string(result.status))
        .bind(4, result.changed)
        .bind(5, std::string_view(result.detail))
        .run();
    return connection_.changes();
  });
}

AuditPage SqliteAudit::do_list(const AuditListRequest& request) {
  const std::string actions = actions_json(request.filter.actions);
  return readers_.run([&](Connection& reader) {
    Statement rows = reader.prepare(select_page(request));
    const AuditFilter& filter = request.filter;
    int parameter = 0;
    if (request.after) {
      rows.bind(++parameter,
                static_cast<std::int64_t>(number_of(*request.after, ListOrder::newest_first)));
    }
    if (filter.actor) rows.bind(++parameter, std::string_view(*filter.actor));
    if (!filter.actions.empty()) rows.bind(++parameter, std::string_view(actions));
    if (filter.begun.from) rows.bind(++parameter, *filter.begun.from);
    if (filter.begun.until) rows.bind(++parameter, *filter.begun.until);
    AuditPage page;
    while (rows.step()) {
      if (!sql::add_to_page(page, rows, request.limit)) break;
    }
    return page;
  });
}

std::size_t SqliteAudit::do_cleanup(const AuditCleanupRequest& request) {
  return writer_.run(Flush::required, [&] {
    forget_.bind(1, clock_.now() - request.retention).bind(2, request.limit).run();
    return static_cast<std::size_t>(connection_.changes());
  });
}

}  // namespace oncebox::sqlite
