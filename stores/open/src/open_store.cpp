#include "oncebox/open_store.hpp"

#include <fmt/format.h>

#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/store_url.hpp"
#ifdef ONCEBOX_WITH_SQLITE
#include "oncebox/sqlite/sqlite_store.hpp"
#endif

// The one file that knows every backend.
namespace oncebox {

namespace {

template <class Number>
void take_number(StoreUrl& url, std::string_view name, Number& value) {
  if (const auto number = url.take_number(name)) value = Number(*number);
}

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
  url.require_no_more_parameters();
  return std::make_unique<memory::MemoryStore>(options);
}

#ifdef ONCEBOX_WITH_SQLITE
std::unique_ptr<Store> open_sqlite(StoreUrl& url) {
  sqlite::Options options{.path = url.location()};
  if (const auto deploys = url.take_switch("schema_deployment")) {
    options.schema_deployment =
        *deploys ? sqlite::SchemaDeployment::on : sqlite::SchemaDeployment::off;
  }
  take_number(url, "busy_timeout_ms", options.busy_timeout);
  take_number(url, "readers", options.readers);
  take_number(url, "cache_bytes", options.cache_bytes);
  take_number(url, "checkpoint_bytes", options.checkpoint_bytes);
  take_number(url, "keys_per_segment", options.keys_per_segment);
  take_number(url, "max_waiting_calls", options.max_waiting_calls);
  take_number(url, "max_payload_bytes", options.max_payload_bytes);
  url.require_no_more_parameters();
  return std::make_unique<sqlite::SqliteStore>(options);
}
#endif

}  // namespace

std::unique_ptr<Store> open_store(std::string_view url) {
  StoreUrl parts(url);
  std::string available = "memory";
  if (parts.scheme() == "memory") return open_memory(parts);
#ifdef ONCEBOX_WITH_SQLITE
  if (parts.scheme() == "sqlite") return open_sqlite(parts);
  available += ", sqlite";
#endif
  throw Error(
      ErrorCode::unsupported,
      fmt::format("this build has no store for {}: URLs; it has: {}", parts.scheme(), available));
}

}  // namespace oncebox
