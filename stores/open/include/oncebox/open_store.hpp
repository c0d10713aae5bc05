#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "oncebox/store.hpp"

namespace oncebox {

/// What belongs into no URL, because URLs are soon in logs.
struct StoreCredentials {
  /// A bearer token for `http:` and `https:`, where the URL names no token_file.
  std::string token = {};
};

/// Opens a store by its URL, on the machine's clock.
///
/// - `memory:` is a store in this process. Its parameters are the fields of `memory::Options`:
///   `memory:?max_messages=1000&max_payload_bytes=65536`.
///
/// - `sqlite:PATH` is a file, made if it is not there. Its parameters are the fields of
///   `sqlite::Options`, the timeout in milliseconds and the mode in octal:
///   `sqlite:/var/lib/shop/once.db?schema_deployment=off&busy_timeout_ms=500`.
///
/// - `postgresql://…` or `postgres://…` is a database, by any URL that libpq reads. Beside libpq's
///   own parameters it takes those of `postgresql::Options`: schema, table_prefix,
///   schema_deployment (on, off), pooling (none, transaction), max_connections, call_timeout_ms,
///   connect_timeout_s, idle_timeout_s, flush_claims (on, off), max_payload_bytes and
///   kept_attempts; and server_connections, see `StoreOpener`:
///   `postgresql://me@db1,db2/shop?target_session_attrs=read-write&schema=shop&max_connections=16`.
///
/// - `http://HOST…` or `https://HOST…` is a store of a running service. Its parameters are those of
///   `http::Options`: store, token_file, ca_file, client_certificate, client_key,
///   connect_timeout_ms, timeout_ms, max_retries, max_connections, max_payload_bytes and
///   on_unavailable (closed, open):
///   `https://oncebox.example?store=eu&token_file=/run/token&timeout_ms=5000`.
///
/// Throws `invalid_argument` for a URL that cannot be read, `unsupported` for a scheme that this
/// build does not have, naming those it has, and whatever the backend throws when it cannot be
/// opened.
[[nodiscard]] std::unique_ptr<Store> open_store(std::string_view url,
                                                const StoreCredentials& credentials = {});

/// Opens stores that share what the stores of one process can share: all PostgreSQL stores whose
/// URLs name the same hosts and ports, and a number by server_connections, have so many connections
/// at most together (see `postgresql::ConnectionBudget`). Stores may outlive their opener. Every
/// call is safe from any thread.
class StoreOpener {
 public:
  StoreOpener();
  ~StoreOpener();
  StoreOpener(const StoreOpener&) = delete;
  StoreOpener& operator=(const StoreOpener&) = delete;

  /// As `open_store`. Throws `invalid_argument`, too, when an open store of the same server was
  /// given another number of server_connections.
  [[nodiscard]] std::unique_ptr<Store> open(std::string_view url,
                                            const StoreCredentials& credentials = {});

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace oncebox
