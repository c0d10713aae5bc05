#include "sql_error.hpp"

#include <fmt/format.h>

#include <array>

namespace oncebox::postgresql {

namespace {

struct Mapping {
  std::string_view sqlstate;  // or the beginning of several
  ErrorCode code;
  std::string_view what_to_do;
};

// The first that fits counts.
constexpr std::array kMappings{
    Mapping{"0A000", ErrorCode::unavailable, "the schema was changed; repeat the call"},
    Mapping{"26000", ErrorCode::unavailable, "a pooler stands between; use pooling=transaction"},
    Mapping{"42P05", ErrorCode::unavailable, "a pooler stands between; use pooling=transaction"},
    Mapping{"08", ErrorCode::unavailable, "the connection was lost; repeat the call"},
    Mapping{"22", ErrorCode::invalid_argument, "the server cannot keep such a value"},
    Mapping{"25006", ErrorCode::unavailable,
            "the caller's transaction is read-only, or the server, perhaps a standby; with several "
            "hosts use target_session_attrs=read-write"},
    Mapping{"25P03", ErrorCode::unavailable, "repeat the call"},
    Mapping{"28", ErrorCode::invalid_argument, "check user and password of the connection"},
    Mapping{"3D000", ErrorCode::not_found, "create the database"},
    Mapping{"3F000", ErrorCode::conflict, "migrate the database first"},
    Mapping{"40", ErrorCode::unavailable, "repeat the call"},
    Mapping{"42501", ErrorCode::invalid_argument,
            "grant the role what docs/postgresql.md lists under permissions"},
    Mapping{"42P01", ErrorCode::conflict, "migrate the database first"},
    Mapping{"42703", ErrorCode::conflict, "migrate the database first"},
    Mapping{"53", ErrorCode::overloaded, "the server is out of a resource; try again later"},
    Mapping{"54", ErrorCode::invalid_argument, "the request is larger than the server allows"},
    Mapping{"57014", ErrorCode::timeout, "the statement was cancelled; repeat the call"},
    Mapping{"57", ErrorCode::unavailable, "the server is not available now; repeat the call"},
    Mapping{"58", ErrorCode::unavailable, "the server cannot use its disk; see its log"},
    Mapping{"XX001", ErrorCode::corrupt, "the database is damaged; see the server's log"},
    Mapping{"XX002", ErrorCode::corrupt, "the database is damaged; see the server's log"},
};

}  // namespace

void throw_sql_error(std::string_view sqlstate, std::string_view text) {
  // A unique key of ours is violated only by a row that another transaction has added since we
  // looked.
  if (sqlstate == "40001" || sqlstate == "40P01" || sqlstate == "23505") {
    throw LostAgainstAnother(fmt::format("PostgreSQL: {} ({}); repeat the call", text, sqlstate),
                             sqlstate, text);
  }
  if (sqlstate == "55P03") {
    throw LockTimeout(fmt::format("PostgreSQL: {} ({}); repeat the call", text, sqlstate));
  }
  for (const Mapping& mapping : kMappings) {
    if (!sqlstate.starts_with(mapping.sqlstate)) continue;
    throw SqlError(mapping.code,
                   fmt::format("PostgreSQL: {} ({}); {}", text, sqlstate, mapping.what_to_do),
                   sqlstate, text);
  }
  throw SqlError(ErrorCode::internal, fmt::format("PostgreSQL: {} ({})", text, sqlstate), sqlstate,
                 text);
}

bool ends_connection(std::string_view sqlstate) noexcept {
  return sqlstate == "25006" || sqlstate == "0A000" || sqlstate == "26000" || sqlstate == "42P05" ||
         sqlstate.starts_with("57P") || sqlstate.starts_with("08");
}

bool prevents_writes(std::string_view sqlstate) noexcept {
  return sqlstate == "25006" || sqlstate == "53100" || sqlstate.starts_with("58");
}

bool violates_constraint(std::string_view sqlstate) noexcept { return sqlstate.starts_with("23"); }

}  // namespace oncebox::postgresql
