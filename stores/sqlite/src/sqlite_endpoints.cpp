#include "sqlite_endpoints.hpp"

#include <string>
#include <string_view>

#include "oncebox/sql/endpoint_json.hpp"

namespace oncebox::sqlite {

namespace {

constexpr std::string_view kSelectVersion = "SELECT version FROM oncebox_endpoint_version";

// At least one row, so that the version is known when there are no endpoints; none when it is the
// known one.
constexpr std::string_view kSelectEndpoints = R"sql(
SELECT v.version, e.name, e.endpoint, e.status
  FROM oncebox_endpoint_version v LEFT JOIN oncebox_endpoint e
 WHERE v.version <> ?1
 ORDER BY e.name)sql";

}  // namespace

SqliteEndpoints::SqliteEndpoints(Connection& writer_connection, Writer& writer, ReaderPool& readers)
    : connection_(writer_connection),
      writer_(writer),
      readers_(readers),
      find_(writer_connection.prepare(
          "SELECT name, endpoint, status FROM oncebox_endpoint WHERE name = ?1")),
      count_(writer_connection.prepare("SELECT count(*) FROM oncebox_endpoint")),
      insert_(writer_connection.prepare(
          "INSERT INTO oncebox_endpoint (name, endpoint, status) VALUES (?1, ?2, '{}')")),
      update_(
          writer_connection.prepare("UPDATE oncebox_endpoint SET endpoint = ?2 WHERE name = ?1")),
      update_status_(
          writer_connection.prepare("UPDATE oncebox_endpoint SET status = ?2 WHERE name = ?1")),
      delete_(writer_connection.prepare("DELETE FROM oncebox_endpoint WHERE name = ?1")),
      advance_(
          writer_connection.prepare("UPDATE oncebox_endpoint_version SET version = version + 1")) {}

std::optional<EndpointList> SqliteEndpoints::do_list(std::optional<std::int64_t> known_version,
                                                     EndpointSecrets secrets) {
  if (known_version && version() == *known_version) return std::nullopt;
  return readers_.run([&](Connection& reader) {
    Statement rows = reader.prepare(kSelectEndpoints);
    rows.bind(1, known_version.value_or(0));  // which no version is
    std::optional<EndpointList> list;
    while (rows.step()) {
      if (!list) list = EndpointList{.version = rows.int64(0)};
      if (rows.is_null(1)) break;
      EndpointRecord& record = list->endpoints.emplace_back(sql::read_stored_endpoint(rows, 1));
      if (secrets == EndpointSecrets::leave_out) record.endpoint.secrets.reset();
    }
    return list;
  });
}

// Asked before each delivery.
std::int64_t SqliteEndpoints::version() {
  return readers_.run_statement([](Connection& reader) {
    Statement& row = reader.kept(kSelectVersion);
    const ResetLater reset(row);
    return row.step() ? row.int64(0) : 0;
  });
}

EndpointSaved SqliteEndpoints::do_save(const Endpoint& endpoint, const EndpointOptions& options) {
  return writer_.run(Flush::required, [&] {
    const std::optional<EndpointRecord> known = find(endpoint.name);
    const Endpoint after = endpoint_after(
        {.known = known ? std::optional(known->endpoint) : std::nullopt, .count = count()},
        endpoint, options);
    if (known && after == known->endpoint) return EndpointSaved::unchanged;
    Statement& save = known ? update_ : insert_;
    const std::string text = sql::to_json(after);
    const ResetLater reset(save);
    save.bind(1, std::string_view(after.name.str())).bind(2, std::string_view(text)).run();
    advance_.run();
    return known ? EndpointSaved::changed : EndpointSaved::created;
  });
}

bool SqliteEndpoints::do_remove(const EndpointName& name, const EndpointOptions& /*options*/) {
  return writer_.run(Flush::required, [&] {
    const ResetLater reset(delete_);
    delete_.bind(1, std::string_view(name.str())).run();
    const bool was_there = connection_.changes() > 0;
    if (was_there) advance_.run();
    return was_there;
  });
}

std::optional<EndpointNoted> SqliteEndpoints::do_note(const EndpointName& name,
                                                      const EndpointEvent& event) {
  return writer_.run(Flush::required, [&]() -> std::optional<EndpointNoted> {
    const std::optional<EndpointRecord> known = find(name);
    if (!known) return std::nullopt;
    const EndpointStatus after = status_after(*known, event);
    if (after == known->status) return EndpointNoted{false, after};
    const std::string text = sql::to_json(after);
    const ResetLater reset(update_status_);
    update_status_.bind(1, std::string_view(name.str())).bind(2, std::string_view(text)).run();
    advance_.run();
    return EndpointNoted{true, after};
  });
}

std::optional<EndpointRecord> SqliteEndpoints::find(const EndpointName& name) {
  const ResetLater reset(find_);
  find_.bind(1, std::string_view(name.str()));
  if (!find_.step()) return std::nullopt;
  return sql::read_stored_endpoint(find_);
}

std::size_t SqliteEndpoints::count() {
  const ResetLater reset(count_);
  return count_.step() ? static_cast<std::size_t>(count_.int64(0)) : 0;
}

}  // namespace oncebox::sqlite
