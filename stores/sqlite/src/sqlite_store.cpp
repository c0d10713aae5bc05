#include "oncebox/sqlite/sqlite_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "connection.hpp"
#include "file_watch.hpp"
#include "library.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/descriptor.hpp"
#include "oncebox/limits.hpp"
#include "reader_pool.hpp"
#include "schema.hpp"
#include "sqlite_audit.hpp"
#include "sqlite_endpoints.hpp"
#include "sqlite_keys.hpp"
#include "sqlite_policies.hpp"
#include "sqlite_queue.hpp"
#include "topic_names.hpp"
#include "writer.hpp"

namespace oncebox::sqlite {

namespace {

constexpr std::size_t kPageBytes = 4'096;
/// A disk with less room than this counts as full once a write has failed.
constexpr std::uintmax_t kLeastRoomBytes = std::uintmax_t{1} << 20;

Options validated(Options options) {
  require_usable(running_library());
  if (options.path.empty() || options.path.starts_with(':')) {
    throw Error(ErrorCode::invalid_argument,
                "a SQLite store needs the path of a file; for one in memory use \"memory:\"");
  }
  require_in_range("readers", options.readers, 1, 64);
  require_in_range("busy_timeout", options.busy_timeout, std::chrono::milliseconds{0},
                   std::chrono::minutes{10});
  require_in_range("checkpoint_bytes", options.checkpoint_bytes, kPageBytes, std::size_t{1} << 32);
  require_in_range("max_waiting_calls", options.max_waiting_calls, 1, 1'000'000);
  require_in_range("keys_per_segment", options.keys_per_segment, 1, std::size_t{1} << 20);
  require_in_range("kept_attempts", options.kept_attempts, 1, limits::kMaxKeptAttempts);
  require_in_range("cache_bytes", options.cache_bytes, 0, std::size_t{1} << 40);
  constexpr unsigned kOwner = S_IRUSR | S_IWUSR;
  constexpr unsigned kAll = kOwner | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
  if ((options.mode & kOwner) != kOwner || (options.mode & ~kAll) != 0) {
    throw Error(ErrorCode::out_of_range,
                "mode is 0600 to 0666: the owner must be able to read and write, and nobody can "
                "execute a database");
  }
  require_in_range("max_payload_bytes", options.max_payload_bytes, 1, limits::kMaxClaimBytes);
  return options;
}

ConnectionOptions connection_options(const Options& options, Access access) {
  const bool reads = access == Access::read_only;
  return {.path = options.path,
          .access = access,
          .busy_timeout = options.busy_timeout,
          .cache_bytes = reads ? options.cache_bytes / 4 : options.cache_bytes,
          .vfs = options.vfs};
}

// SQLite gives the log and its index the mode of the database file. A file that is there keeps its
// mode; what is wrong with the path SQLite says.
void make_file(const Options& options) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  const detail::Descriptor file(open(options.path.c_str(), kFlags, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return;
  if (fchmod(file.get(), options.mode) != 0) {
    throw Error(ErrorCode::unavailable,
                fmt::format("\"{}\" cannot be given the mode {:04o}", options.path, options.mode));
  }
}

// Opens the connection that writes, with a current schema. Without deployment nothing is created
// or changed before the schema is known to be there.
std::unique_ptr<Connection> open_writer_once(const Options& options) {
  const bool deploys = options.schema_deployment == SchemaDeployment::on;
  if (!deploys && !std::filesystem::exists(options.path)) refuse_missing_schema();
  if (deploys) make_file(options);
  auto connection = std::make_unique<Connection>(connection_options(options, Access::read_write));
  if (!deploys) require_current_schema(*connection);
  // Has an effect on a new file only, but would write to any: a process must be able to start, if
  // only to read, while the disk is full.
  const bool is_new = connection->query_integer("PRAGMA page_count") == 0;
  if (is_new) connection->execute("PRAGMA auto_vacuum = INCREMENTAL");
  if (connection->query_text("PRAGMA journal_mode = WAL") != "wal") {
    throw Error(ErrorCode::unsupported,
                fmt::format("\"{}\" cannot have a write-ahead log; it must lie on a local disk",
                            options.path));
  }
  // A long read lets the log grow; afterwards it is to shrink again.
  connection->execute(fmt::format("PRAGMA journal_size_limit = {}", 4 * options.checkpoint_bytes));
  connection->execute(fmt::format("PRAGMA wal_autocheckpoint = {}",
                                  std::max(options.checkpoint_bytes / kPageBytes, std::size_t{1})));
  if (deploys && schema_version(*connection) != kSchemaVersion) migrate(*connection);
  sqlite3_db_config(connection->handle(), SQLITE_DBCONFIG_ENABLE_FKEY,
                    static_cast<int>(options.foreign_keys), nullptr);
  connection->release_memory();  // the pages of a new schema
  return connection;
}

// While others are just making the same file, SQLite says at once that it is locked, whatever the
// timeout: the change to the write-ahead log is not waited for.
std::unique_ptr<Connection> open_writer(const Options& options) {
  constexpr std::chrono::milliseconds kPause{5};
  const Deadline give_up(options.busy_timeout);
  for (;;) {
    try {
      return open_writer_once(options);
    } catch (const LockedError&) {
      if (give_up.has_passed()) throw;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

struct SqliteStore::Impl {
  Impl(const Options& store_options, const Clock& clock)
      : options(validated(store_options)),
        connection(open_writer(options)),
        readers(connection_options(options, Access::read_only), options.readers),
        own_reader(connection_options(options, Access::read_only), 1, ReaderPages::released),
        topics(*connection),
        writer(*connection, options.max_waiting_calls,
               [this](Writer::Ending ending) { on_ending(ending); }),
        policies(*connection, writer, readers),
        parts{*connection, writer, readers, own_reader, topics, policies, clock},
        inbox(parts, QueueKind::inbox, options),
        outbox(parts, QueueKind::outbox, options),
        deliveries(parts, QueueKind::deliveries, options),
        keys(*connection, writer, readers, clock),
        endpoints(*connection, writer, readers),
        audit(*connection, writer, readers, clock) {
    policies.on_change([this](QueueKind queue) { this->queue(queue).notify(); });
    for (const QueueKind kind : kQueueKinds) {
      queue(kind).meet([this](QueueKind other) -> SqliteQueue& { return queue(other); });
      queue(kind).on_first_listener(
          [this] { std::call_once(watching, [this] { start_watching(); }); });
    }
  }

  [[nodiscard]] SqliteQueue& queue(QueueKind kind) noexcept {
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

  void on_ending(Writer::Ending ending) noexcept {
    if (ending == Writer::Ending::rolled_back) {
      topics.forget();
      policies.forget();
    }
    for (const QueueKind kind : kQueueKinds) queue(kind).on_ending(ending);
  }

  /// After a write has failed: throws unless writes work again. This one is small, and what failed
  /// may have been large; hence the look at the room on the disk.
  void require_writable() {
    const std::uintmax_t room = std::filesystem::space(options.path).available;
    if (room < kLeastRoomBytes) {
      throw Error(ErrorCode::overloaded,
                  fmt::format("writes fail, because the disk is full: {} bytes are left", room));
    }
    writer.forget_failure();  // before: this write, or another, may fail again
    writer.run(Flush::required, [this] {
      // Changes a page and leaves it as it was.
      constexpr const char* kTurnAround = "UPDATE oncebox_schema SET version = -version";
      connection->execute(kTurnAround);
      connection->execute(kTurnAround);
      return true;
    });
  }

  void start_watching() {
    watch.emplace(options.path + "-wal", [this] {
      for (const QueueKind kind : kQueueKinds) queue(kind).notify();
    });
  }

  const Options options;
  std::unique_ptr<Connection> connection;
  ReaderPool readers;
  ReaderPool own_reader;
  TopicNumbers topics;
  Writer writer;
  SqlitePolicies policies;
  StoreParts parts;
  SqliteQueue inbox;
  SqliteQueue outbox;
  SqliteQueue deliveries;
  SqliteKeys keys;
  SqliteEndpoints endpoints;
  SqliteAudit audit;
  std::once_flag watching;
  std::optional<FileWatch> watch;  // last: its thread calls the queues
};

SqliteStore::SqliteStore(const Options& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}

SqliteStore::~SqliteStore() = default;

QueueStore& SqliteStore::inbox() { return impl_->inbox; }
QueueStore& SqliteStore::outbox() { return impl_->outbox; }
QueueStore& SqliteStore::deliveries() { return impl_->deliveries; }
IdempotencyStore& SqliteStore::keys() { return impl_->keys; }
QueueOperator& SqliteStore::inbox_operator() { return impl_->inbox; }
QueueOperator& SqliteStore::outbox_operator() { return impl_->outbox; }
QueueOperator& SqliteStore::deliveries_operator() { return impl_->deliveries; }
PolicyStore& SqliteStore::policies() { return impl_->policies; }
EndpointStore& SqliteStore::endpoints() { return impl_->endpoints; }
AuditTrail& SqliteStore::audit() { return impl_->audit; }

Capabilities SqliteStore::capabilities() const {
  return {.durable = true,
          .shared_between_processes = true,
          .joins_caller_transaction = true,
          .notifies = true,
          .max_payload_bytes = impl_->options.max_payload_bytes};
}

MigrationResult SqliteStore::migrate() {
  Connection connection(connection_options(impl_->options, Access::read_write));
  return sqlite::migrate(connection);
}

Health SqliteStore::health() noexcept {
  try {
    const int version =
        impl_->own_reader.run([](Connection& reader) { return schema_version(reader); });
    if (version != kSchemaVersion) {
      return {HealthStatus::unavailable, "the schema was changed by another program"};
    }
    if (impl_->writer.has_failed()) impl_->require_writable();
    for (const QueueKind kind : kQueueKinds) {
      Health of_clock = impl_->queue(kind).clock_health();
      if (of_clock.status != HealthStatus::healthy) return of_clock;
    }
    return {};
  } catch (const LockedError& error) {
    return {HealthStatus::degraded, error.what()};
  } catch (const std::exception& error) {
    return {HealthStatus::unavailable, error.what()};
  }
}

}  // namespace oncebox::sqlite
