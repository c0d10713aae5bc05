#include "postgresql_endpoints.hpp"

#include <array>
#include <string_view>

#include "oncebox/sql/endpoint_json.hpp"

namespace oncebox::postgresql {

namespace {

// At least one row, so that the version is known when there are no endpoints; none when it is the
// known one.
constexpr std::string_view kSelectEndpoints = R"sql(
SELECT v.version, e.name, e.endpoint, e.status
  FROM {endpoint_version} v LEFT JOIN {endpoint} e ON true
 WHERE v.version <> coalesce($1::bigint, 0)
 ORDER BY e.name)sql";

// One row: how many there are, and the one of the name, if any.
constexpr std::string_view kFindEndpoint = R"sql(
SELECT (SELECT count(*) FROM {endpoint}), e.name, e.endpoint, e.status
  FROM (VALUES (1)) one LEFT JOIN {endpoint} e ON e.name = $1::text)sql";

}  // namespace

PostgresqlEndpoints::PostgresqlEndpoints(ConnectionPool& pool, const Names& names)
    : pool_(pool),
      select_{"endpoint_list", names.fill(kSelectEndpoints)},
      lock_{"endpoint_lock", names.fill("SELECT version FROM {endpoint_version} FOR UPDATE")},
      find_{"endpoint_find", names.fill(kFindEndpoint)},
      insert_{"endpoint_insert", names.fill(R"sql(
INSERT INTO {endpoint} (name, endpoint, status) VALUES ($1::text, $2::text, '{{}}'))sql")},
      update_{"endpoint_update", names.fill(R"sql(
UPDATE {endpoint} SET endpoint = $2::text WHERE name = $1::text)sql")},
      update_status_{"endpoint_status", names.fill(R"sql(
UPDATE {endpoint} SET status = $2::text WHERE name = $1::text)sql")},
      delete_{"endpoint_delete", names.fill("DELETE FROM {endpoint} WHERE name = $1::text")},
      advance_{"endpoint_advance",
               names.fill("UPDATE {endpoint_version} SET version = version + 1")} {}

std::optional<EndpointList> PostgresqlEndpoints::do_list(std::optional<std::int64_t> known_version,
                                                         EndpointSecrets secrets) {
  const Result rows =
      run_alone(pool_, select_, Parameters().add(known_version), Exchange::changes_nothing);
  if (rows.rows() == 0) return std::nullopt;
  EndpointList list{.version = rows.int64(0, 0)};
  for (int row = 0; row < rows.rows(); ++row) {
    if (rows.is_null(row, 1)) break;
    EndpointRecord& record =
        list.endpoints.emplace_back(sql::read_stored_endpoint(ResultRow(rows, row), 1));
    if (secrets == EndpointSecrets::leave_out) record.endpoint.secrets.reset();
  }
  return list;
}

EndpointSaved PostgresqlEndpoints::do_save(const Endpoint& endpoint,
                                           const EndpointOptions& options) {
  return in_transaction(pool_, [&](Transaction& transaction) {
    std::size_t count = 0;
    const std::optional<EndpointRecord> known = find_locked(transaction, endpoint.name, &count);
    const Endpoint after = endpoint_after(
        {.known = known ? std::optional(known->endpoint) : std::nullopt, .count = count}, endpoint,
        options);
    if (known && after == known->endpoint) return EndpointSaved::unchanged;
    const Parameters nothing;
    const Parameters row = Parameters().add(after.name.str()).add(sql::to_json(after));
    const std::array commands{Command{known ? &update_ : &insert_, &row},
                              Command{&advance_, &nothing}};
    transaction.commit(commands);
    return known ? EndpointSaved::changed : EndpointSaved::created;
  });
}

bool PostgresqlEndpoints::do_remove(const EndpointName& name, const EndpointOptions& /*options*/) {
  return in_transaction(pool_, [&](Transaction& transaction) {
    const Parameters nothing;
    const Parameters key = Parameters().add(name.str());
    const std::array remove{Command{&lock_, &nothing}, Command{&delete_, &key}};
    if (transaction.run_all(remove).back().changed() == 0) return false;
    const std::array advance{Command{&advance_, &nothing}};
    transaction.commit(advance);
    return true;
  });
}

std::optional<EndpointNoted> PostgresqlEndpoints::do_note(const EndpointName& name,
                                                          const EndpointEvent& event) {
  return in_transaction(pool_, [&](Transaction& transaction) -> std::optional<EndpointNoted> {
    const std::optional<EndpointRecord> known = find_locked(transaction, name, nullptr);
    if (!known) return std::nullopt;
    const EndpointStatus after = status_after(*known, event);
    if (after == known->status) return EndpointNoted{false, after};
    const Parameters nothing;
    const Parameters row = Parameters().add(name.str()).add(sql::to_json(after));
    const std::array commands{Command{&update_status_, &row}, Command{&advance_, &nothing}};
    transaction.commit(commands);
    return EndpointNoted{true, after};
  });
}

std::optional<EndpointRecord> PostgresqlEndpoints::find_locked(Transaction& transaction,
                                                               const EndpointName& name,
                                                               std::size_t* count) {
  const Parameters nothing;
  const Parameters key = Parameters().add(name.str());
  const std::array look{Command{&lock_, &nothing}, Command{&find_, &key}};
  const std::vector<Result> results = transaction.run_all(look);
  const Result& found = results.back();
  if (count != nullptr) *count = static_cast<std::size_t>(found.int64(0, 0));
  if (found.is_null(0, 1)) return std::nullopt;
  return sql::read_stored_endpoint(ResultRow(found, 0), 1);
}

}  // namespace oncebox::postgresql
