#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/postgresql/connection_budget.hpp"
#include "oncebox/store.hpp"

namespace oncebox::postgresql {

/// Whether opening a store may create or migrate its tables (IBX-114, IBX-115). Several processes
/// may do it at once.
enum class SchemaDeployment {
  on,   ///< a missing schema and its tables are created, older ones migrated
  off,  ///< a missing or older schema is an error that says so
};

/// What stands between this process and the server.
enum class Pooling {
  none,         ///< a connection is a session: statements are prepared once, and NOTIFY wakes us
  transaction,  ///< PgBouncer in transaction mode: no prepared statements, no LISTEN, only polling
};

struct Options {
  /// A libpq connection URL (`postgresql://user@host1,host2/db?target_session_attrs=read-write`) or
  /// string of `keyword=value` pairs. Whatever it leaves out comes from the environment and the
  /// service and password files, as with every libpq program.
  std::string connection;
  std::string schema = "infra";
  std::string table_prefix = "oncebox_";
  SchemaDeployment schema_deployment = SchemaDeployment::off;
  Pooling pooling = Pooling::none;
  /// Connections that the store opens at most for its calls; more calls wait for one. One more
  /// listens when a worker waits for messages.
  std::size_t max_connections = 8;
  /// How long a call may take, with waiting for a connection, before it fails as `timeout`, or as
  /// `outcome_unknown` when it may have been committed.
  std::chrono::milliseconds call_timeout{30'000};
  /// How long to wait for each host while connecting.
  std::chrono::seconds connect_timeout{5};
  /// Whether a claim is on the server's disk before it is answered. Without it a claim is faster,
  /// but when the server crashes a message may be handed to somebody else while its first holder is
  /// still at work.
  bool flush_claims = true;
  std::size_t max_payload_bytes = std::size_t{16} << 20;
  std::size_t kept_attempts = defaults::kKeptAttempts;  ///< of each message, the last ones
  /// A connection that nobody used for so long is closed by the next call of this store, or of one
  /// that shares its budget. Zero: never.
  std::chrono::seconds idle_timeout{300};
  /// What the stores of one server share; null: this one shares nothing.
  std::shared_ptr<ConnectionBudget> budget = {};
};

/// Both queues and the keys in one schema of a PostgreSQL database, version 13 or later, shared by
/// any number of processes. The role needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE
/// on the tables and USAGE on the sequences; see docs/postgresql.md.
///
/// **Time.** The database's clock decides.
///
/// **Durability.** What a call answers is as durable as the server's `synchronous_commit` makes it,
/// with a synchronous standby also on the standby.
///
/// **Faults.** A lost connection is replaced by the next call. A call whose connection was lost
/// while it committed fails as `outcome_unknown`, every other one as `unavailable`; a full disk or
/// too many connections are `overloaded`. Deadlocks and serialization failures are repeated inside.
class PostgresqlStore final : public Store {
 public:
  /// Connects. Throws `unavailable` when no server answers, `conflict` when the schema is newer
  /// than this library or, without deployment, missing or older, `unsupported` when the server is
  /// older than version 13, `invalid_argument` for bad options or refused credentials.
  explicit PostgresqlStore(const Options& options);
  /// For tests: `clock`, which is borrowed and must outlive the store, decides in place of the
  /// database's.
  PostgresqlStore(const Options& options, const Clock& clock);
  ~PostgresqlStore() override;

  [[nodiscard]] QueueStore& inbox() override;
  [[nodiscard]] QueueStore& outbox() override;
  [[nodiscard]] QueueStore& deliveries() override;
  [[nodiscard]] IdempotencyStore& keys() override;
  [[nodiscard]] QueueOperator& inbox_operator() override;
  [[nodiscard]] QueueOperator& outbox_operator() override;
  [[nodiscard]] QueueOperator& deliveries_operator() override;
  [[nodiscard]] PolicyStore& policies() override;
  [[nodiscard]] EndpointStore& endpoints() override;
  [[nodiscard]] AuditTrail& audit() override;
  [[nodiscard]] Capabilities capabilities() const override;
  MigrationResult migrate() override;
  [[nodiscard]] Health health() noexcept override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Creates or migrates the schema without opening a store, for those who deploy it apart.
MigrationResult migrate(const Options& options);

}  // namespace oncebox::postgresql
