#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/store.hpp"

namespace oncebox::sqlite {

/// Whether opening a store may create or migrate its tables (IBX-114, IBX-115).
enum class SchemaDeployment {
  on,   ///< missing tables are created, older ones migrated
  off,  ///< a missing or older schema is an error that says so
};

struct Options {
  std::string path;  ///< of the database file; its directory must exist
  SchemaDeployment schema_deployment = SchemaDeployment::on;
  /// The access mode of the file when it is made, whatever the umask; the files beside it get the
  /// same. A file that is there keeps its own.
  unsigned mode = 0600;
  /// How long a call waits for another process to finish writing before it fails as `unavailable`.
  std::chrono::milliseconds busy_timeout{5'000};
  /// Connections for calls that only read. They never wait for the writer, nor it for them.
  std::size_t readers = 2;
  /// Pages that the writer keeps in memory; each reader keeps a quarter of it.
  std::size_t cache_bytes = std::size_t{16} << 20;
  /// How much is written to the log before it is copied into the database file.
  std::size_t checkpoint_bytes = std::size_t{16} << 20;
  /// The keys of messages are indexed in segments of so many, so that taking a message in costs the
  /// same however many are stored; see decision 0008. Takes about 2 bytes of memory for each stored
  /// message.
  std::size_t keys_per_segment = 65'536;
  /// Calls that may wait for the writer; more fail as `overloaded`.
  std::size_t max_waiting_calls = 10'000;
  std::size_t max_payload_bytes = std::size_t{16} << 20;
  std::size_t kept_attempts = defaults::kKeptAttempts;  ///< of each message, the last ones
  /// Whether REFERENCES of your own tables are enforced in transactional handlers. SQLite leaves
  /// them out unless a connection asks for them, and a handler cannot ask.
  bool foreign_keys = false;
  /// The name of a registered sqlite3_vfs; empty for the default one.
  std::string vfs = {};
};

/// Both queues and the keys in one SQLite file, in write-ahead-log mode. Several processes may open
/// the same file; it must lie on a local disk. The file may hold other tables too: ours are named
/// `oncebox_…`.
///
/// **Durability.** An enqueue, settlement or verdict is on the disk when its call returns. A claim
/// may be lost when the machine loses power, never when a process dies; its messages are then
/// claimable at once.
///
/// **Threads.** One thread owns the connection that writes. What several callers ask for while it
/// commits goes into its next transaction together, so many callers cost one flush.
///
/// **The clock.** Times are those of the machine's clock. When it is set back, the next call that
/// writes lets messages that were waiting for nothing but the clock be claimed, and lets leases
/// that began later than now begin now.
///
/// **Faults.** A full disk is `overloaded`, a disk error or a lock held too long `unavailable`; a
/// disk error during the flush of a commit is `outcome_unknown`. After each of them the store goes
/// on working as soon as the disk does; until then its health is `unavailable`.
class SqliteStore final : public Store {
 public:
  /// Opens or creates the file. `clock` is borrowed and must outlive the store. Throws `not_found`
  /// when the path cannot be opened, `corrupt` when it is no database, `conflict` when the schema
  /// is newer than this library or, without deployment, missing or older, `unsupported` when the
  /// SQLite library is too old.
  explicit SqliteStore(const Options& options, const Clock& clock = SystemClock::shared());
  ~SqliteStore() override;

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

}  // namespace oncebox::sqlite
