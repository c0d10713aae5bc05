#include "oncebox/postgresql/postgresql_store.hpp"

#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "connection_pool.hpp"
#include "listener.hpp"
#include "names.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "postgresql_audit.hpp"
#include "postgresql_endpoints.hpp"
#include "postgresql_keys.hpp"
#include "postgresql_policies.hpp"
#include "postgresql_queue.hpp"
#include "schema.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

namespace {

Options validated(Options options) {
  require_in_range("max_connections", options.max_connections, 1, 1'000);
  require_in_range("call_timeout", options.call_timeout, std::chrono::milliseconds{100},
                   std::chrono::hours{1});
  require_in_range("connect_timeout", options.connect_timeout, std::chrono::seconds{1},
                   std::chrono::minutes{10});
  require_in_range("idle_timeout", options.idle_timeout, std::chrono::seconds{0},
                   std::chrono::hours{24});
  require_in_range("max_payload_bytes", options.max_payload_bytes, 1, limits::kMaxClaimBytes);
  require_in_range("kept_attempts", options.kept_attempts, 1, limits::kMaxKeptAttempts);
  return options;
}

}  // namespace

struct PostgresqlStore::Impl {
  Impl(const Options& store_options, const Clock* clock)
      : options(validated(store_options)),
        names(options.schema, options.table_prefix),
        signature(Uuid::generate_v7(SystemClock::current()).to_string()),
        schedules(clock != nullptr ? *clock : SystemClock::shared()),
        pool(options, schedules),
        parts{pool, names, clock, schedules, signature},
        inbox(with_schema(parts), QueueKind::inbox),
        outbox(parts, QueueKind::outbox),
        deliveries(parts, QueueKind::deliveries),
        keys(pool, names, clock),
        policies(pool, names, [this](QueueKind kind) { queue(kind).announce_committed(); }),
        endpoints(pool, names),
        audit(pool, names, clock) {
    for (const QueueKind kind : kQueueKinds) {
      queue(kind).meet([this](QueueKind other) -> PostgresqlQueue& { return queue(other); });
      if (!notifies()) continue;
      queue(kind).on_listen([this] { std::call_once(listening, [this] { start_listening(); }); });
    }
  }

  [[nodiscard]] PostgresqlQueue& queue(QueueKind kind) noexcept {
    switch (kind) {
      case QueueKind::inbox:
        return inbox;
      case QueueKind::outbox:
        return outbox;
      case QueueKind::deliveries:
        break;
    }
    return deliveries;
  }

  [[nodiscard]] bool notifies() const noexcept {
    return options.pooling == Pooling::none && pool.may_listen();
  }

  const StoreParts& with_schema(const StoreParts& with) const {
    const Deadline deadline = with.pool.deadline();
    const ConnectionPool::Lease connection = with.pool.acquire(deadline);
    if (options.schema_deployment == SchemaDeployment::on) {
      if (schema_version(*connection, names, deadline) != kSchemaVersion) {
        postgresql::migrate(*connection, names, deadline);
      }
    } else {
      require_current_schema(*connection, names, deadline);
    }
    return with;
  }

  // Takes new pages of a table, and leaves the table as it was. What can be compressed would need
  // fewer.
  void require_writable(Connection& connection, Deadline deadline) {
    std::minstd_rand random;
    std::string bytes(std::size_t{64} << 10, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    pool.forget_failed_write();  // before: this write, or another, may fail again
    Transaction transaction(connection, deadline);
    const Statement write{"", names.fill(R"sql(
INSERT INTO {past_content} (id, content_version, replaced_at, replaced_by, reason, payload)
VALUES (0, 0, now(), '', '', $1::bytea))sql",
                                         "inbox")};
    transaction.run(write, Parameters().add(std::string_view(bytes)));
  }

  void start_listening() {
    std::vector<Listener::Channel> channels;
    for (const QueueKind kind : kQueueKinds) {
      channels.push_back({names.channel(to_string(kind)), [this, kind] { queue(kind).notify(); }});
    }
    listener.emplace(pool, schedules, std::move(channels), signature);
  }

  const Options options;
  const Names names;
  const std::string signature;
  const Clock& schedules;
  ConnectionPool pool;
  const StoreParts parts;
  PostgresqlQueue inbox;
  PostgresqlQueue outbox;
  PostgresqlQueue deliveries;
  PostgresqlKeys keys;
  PostgresqlPolicies policies;
  PostgresqlEndpoints endpoints;
  PostgresqlAudit audit;
  std::once_flag listening;
  std::optional<Listener> listener;  // last: its thread calls the queues
};

PostgresqlStore::PostgresqlStore(const Options& options)
    : impl_(std::make_unique<Impl>(options, nullptr)) {}

PostgresqlStore::PostgresqlStore(const Options& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, &clock)) {}

PostgresqlStore::~PostgresqlStore() = default;

QueueStore& PostgresqlStore::inbox() { return impl_->inbox; }
QueueStore& PostgresqlStore::outbox() { return impl_->outbox; }
QueueStore& PostgresqlStore::deliveries() { return impl_->deliveries; }
IdempotencyStore& PostgresqlStore::keys() { return impl_->keys; }
QueueOperator& PostgresqlStore::inbox_operator() { return impl_->inbox; }
QueueOperator& PostgresqlStore::outbox_operator() { return impl_->outbox; }
QueueOperator& PostgresqlStore::deliveries_operator() { return impl_->deliveries; }
PolicyStore& PostgresqlStore::policies() { return impl_->policies; }
EndpointStore& PostgresqlStore::endpoints() { return impl_->endpoints; }
AuditTrail& PostgresqlStore::audit() { return impl_->audit; }

Capabilities PostgresqlStore::capabilities() const {
  return {.durable = true,
          .shared_between_processes = true,
          .joins_caller_transaction = true,
          .notifies = impl_->notifies(),
          .max_payload_bytes = impl_->options.max_payload_bytes};
}

MigrationResult PostgresqlStore::migrate() {
  const Deadline deadline = impl_->pool.deadline();
  const ConnectionPool::Lease connection = impl_->pool.acquire(deadline);
  return postgresql::migrate(*connection, impl_->names, deadline);
}

Health PostgresqlStore::health() noexcept {
  try {
    const Deadline deadline = impl_->pool.deadline();
    const ConnectionPool::Lease connection = impl_->pool.acquire(deadline);
    if (schema_version(*connection, impl_->names, deadline) != kSchemaVersion) {
      return {HealthStatus::unavailable, "the schema was changed by another program"};
    }
    if (impl_->pool.has_failed_to_write()) impl_->require_writable(*connection, deadline);
    for (const QueueKind kind : kQueueKinds) {
      Health of_clock = impl_->queue(kind).clock_health();
      if (of_clock.status != HealthStatus::healthy) return of_clock;
    }
    return {};
  } catch (const std::exception& error) {
    return {HealthStatus::unavailable, error.what()};
  }
}

MigrationResult migrate(const Options& options) {
  const Options checked = validated(options);
  const Names names(checked.schema, checked.table_prefix);
  Connection connection(checked);
  return migrate(connection, names, deadline_in(checked.call_timeout));
}

}  // namespace oncebox::postgresql
