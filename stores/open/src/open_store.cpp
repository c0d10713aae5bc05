#include "oncebox/open_store.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <system_error>

#include "oncebox/driver/store_url.hpp"
#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "url_parameters.hpp"
#ifdef ONCEBOX_WITH_HTTP
#include "oncebox/http/http_store.hpp"
#include "oncebox/http_options.hpp"
#endif
#ifdef ONCEBOX_WITH_POSTGRESQL
#include "oncebox/detail/mutex.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#endif
#ifdef ONCEBOX_WITH_SQLITE
#include "oncebox/sqlite/sqlite_store.hpp"
#endif

// The one file that knows every backend.
namespace oncebox {

namespace {

std::unique_ptr<Store> open_memory(StoreUrl& url) {
  if (!url.location().empty()) {
    throw Error(ErrorCode::invalid_argument,
                "a memory store has no name or path; write memory: with nothing but parameters");
  }
  memory::Options options;
  take_number(url, "max_messages", options.max_messages);
  take_number(url, "max_bytes", options.max_bytes);
  take_number(url, "max_keys", options.max_keys);
  take_number(url, "max_key_bytes", options.max_key_bytes);
  take_number(url, "max_payload_bytes", options.max_payload_bytes);
  take_number(url, "max_audit_entries", options.max_audit_entries);
  take_number(url, "kept_attempts", options.kept_attempts);
  url.require_no_more_parameters();
  return std::make_unique<memory::MemoryStore>(options);
}

#ifdef ONCEBOX_WITH_SQLITE
unsigned file_mode(std::string_view octal) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(octal.data(), octal.data() + octal.size(), mode, 8);
  if (error == std::errc() && end == octal.data() + octal.size()) return mode;
  throw Error(ErrorCode::invalid_argument, "mode is an octal number such as 0600 or 0660");
}

std::unique_ptr<Store> open_sqlite(StoreUrl& url) {
  sqlite::Options options{.path = url.location()};
  if (const auto deploys = url.take_switch("schema_deployment")) {
    options.schema_deployment =
        *deploys ? sqlite::SchemaDeployment::on : sqlite::SchemaDeployment::off;
  }
  if (const auto mode = url.take("mode")) options.mode = file_mode(*mode);
  take_number(url, "busy_timeout_ms", options.busy_timeout);
  take_number(url, "readers", options.readers);
  take_number(url, "cache_bytes", options.cache_bytes);
  take_number(url, "checkpoint_bytes", options.checkpoint_bytes);
  take_number(url, "keys_per_segment", options.keys_per_segment);
  take_number(url, "max_waiting_calls", options.max_waiting_calls);
  take_number(url, "max_payload_bytes", options.max_payload_bytes);
  take_number(url, "kept_attempts", options.kept_attempts);
  if (const auto enforced = url.take_switch("foreign_keys")) options.foreign_keys = *enforced;
  url.require_no_more_parameters();
  return std::make_unique<sqlite::SqliteStore>(options);
}
#endif

#ifdef ONCEBOX_WITH_POSTGRESQL
/// The budgets of the servers that open stores name.
class Budgets {
 public:
  [[nodiscard]] std::shared_ptr<postgresql::ConnectionBudget> budget_of(
      const std::string& connection, std::size_t connections) {
    const std::string server = postgresql::server_of(connection);
    const detail::Lock lock(mutex_);
    std::weak_ptr<postgresql::ConnectionBudget>& known = by_server_[server];
    std::shared_ptr<postgresql::ConnectionBudget> budget = known.lock();
    if (!budget) {
      budget = std::make_shared<postgresql::ConnectionBudget>(connections);
      known = budget;
    } else if (budget->connections() != connections) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("server_connections is {} for other stores of this server; give all "
                              "of them the same number",
                              budget->connections()));
    }
    return budget;
  }

 private:
  detail::Mutex mutex_;
  std::map<std::string, std::weak_ptr<postgresql::ConnectionBudget>> by_server_
      ONCEBOX_GUARDED_BY(mutex_);
};

std::unique_ptr<Store> open_postgresql(StoreUrl& url, Budgets& budgets) {
  postgresql::Options options;
  if (auto schema = url.take("schema")) options.schema = std::move(*schema);
  if (auto prefix = url.take("table_prefix")) options.table_prefix = std::move(*prefix);
  if (const auto deploys = url.take_switch("schema_deployment")) {
    options.schema_deployment =
        *deploys ? postgresql::SchemaDeployment::on : postgresql::SchemaDeployment::off;
  }
  if (const auto pooling = url.take("pooling")) options.pooling = pooling_named(*pooling);
  take_number(url, "max_connections", options.max_connections);
  take_number(url, "call_timeout_ms", options.call_timeout);
  take_number(url, "connect_timeout_s", options.connect_timeout);
  take_number(url, "idle_timeout_s", options.idle_timeout);
  std::size_t server_connections = 0;
  take_number(url, "server_connections", server_connections);
  if (const auto flush = url.take_switch("flush_claims")) options.flush_claims = *flush;
  take_number(url, "max_payload_bytes", options.max_payload_bytes);
  take_number(url, "kept_attempts", options.kept_attempts);
  // The rest is libpq's, which refuses what it does not know.
  options.connection = url.without_taken();
  if (server_connections > 0) {
    options.budget = budgets.budget_of(options.connection, server_connections);
  }
  return std::make_unique<postgresql::PostgresqlStore>(options);
}
#endif

#ifdef ONCEBOX_WITH_HTTP
http::OnUnavailable on_unavailable_named(std::string_view name) {
  if (name == "closed") return http::OnUnavailable::fail_closed;
  if (name == "open") return http::OnUnavailable::fail_open;
  throw Error(ErrorCode::invalid_argument, "on_unavailable is closed or open");
}

void take_path(StoreUrl& url, std::string_view name, std::filesystem::path& value) {
  if (auto path = url.take(name)) value = std::move(*path);
}

http::Options http_options(StoreUrl& url, const StoreCredentials& credentials) {
  http::Options options{.url = url.scheme() + ":" + url.location()};
  if (url.take("token")) {
    throw Error(ErrorCode::invalid_argument,
                "a token in a URL is soon in a log; put it into a file, and write token_file=PATH");
  }
  if (auto store = url.take("store")) options.store = std::move(*store);
  take_path(url, "token_file", options.token_file);
  if (options.token_file.empty()) options.token = credentials.token;
  take_path(url, "ca_file", options.ca_file);
  take_path(url, "client_certificate", options.client_certificate);
  take_path(url, "client_key", options.client_key);
  take_number(url, "connect_timeout_ms", options.connect_timeout);
  take_number(url, "timeout_ms", options.call_timeout);
  take_number(url, "max_retries", options.max_retries);
  take_number(url, "max_connections", options.max_connections);
  if (const auto bytes = url.take_number("max_payload_bytes")) options.max_payload_bytes = *bytes;
  if (const auto name = url.take("on_unavailable")) {
    options.on_unavailable = on_unavailable_named(*name);
  }
  url.require_no_more_parameters();
  return options;
}
#endif

}  // namespace

#ifdef ONCEBOX_WITH_HTTP
http::Options read_http_options(std::string_view url, const StoreCredentials& credentials) {
  StoreUrl parts(url);
  if (parts.scheme() == "http" || parts.scheme() == "https") {
    return http_options(parts, credentials);
  }
  throw Error(ErrorCode::unsupported, "this needs the URL of a server, http:// or https://");
}
#endif

struct StoreOpener::Shared {
#ifdef ONCEBOX_WITH_POSTGRESQL
  Budgets budgets;
#endif
};

StoreOpener::StoreOpener() : shared_(std::make_unique<Shared>()) {}

StoreOpener::~StoreOpener() = default;

std::unique_ptr<Store> open_store(std::string_view url, const StoreCredentials& credentials) {
  return StoreOpener().open(url, credentials);
}

std::unique_ptr<Store> StoreOpener::open(std::string_view url,
                                         [[maybe_unused]] const StoreCredentials& credentials) {
  StoreUrl parts(url);
  std::string available = "memory";
  if (parts.scheme() == "memory") return open_memory(parts);
#ifdef ONCEBOX_WITH_SQLITE
  if (parts.scheme() == "sqlite") return open_sqlite(parts);
  available += ", sqlite";
#endif
#ifdef ONCEBOX_WITH_POSTGRESQL
  if (parts.scheme() == "postgresql" || parts.scheme() == "postgres") {
    return open_postgresql(parts, shared_->budgets);
  }
  available += ", postgresql";
#endif
#ifdef ONCEBOX_WITH_HTTP
  if (parts.scheme() == "http" || parts.scheme() == "https") {
    return std::make_unique<http::HttpStore>(http_options(parts, credentials));
  }
  available += ", http, https";
#endif
  throw Error(
      ErrorCode::unsupported,
      fmt::format("this build has no store for {}: URLs; it has: {}", parts.scheme(), available));
}

}  // namespace oncebox
