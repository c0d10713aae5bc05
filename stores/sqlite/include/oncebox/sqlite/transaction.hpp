#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/transaction.hpp"

struct sqlite3;

namespace oncebox::sqlite {

/// The connection on which a transaction of a SQLite store is open, for statements of one's own:
/// of the transaction that a handler was given, or of a `JoinedTransaction`. Throws `unsupported`
/// for a transaction of another kind of store.
///
/// In a handler it is the connection on which the store itself writes, and borrowed until the
/// handler returns: statements are finalised before that, and those that begin or end a
/// transaction, attach a file or set a pragma are refused. Savepoints of one's own may be made, and
/// rolled back to. A statement that ends the transaction all the same, by OR ROLLBACK,
/// RAISE(ROLLBACK) or a disk error, ends the handler's work: no statement after it has an effect,
/// and when the handler returns its delivery fails as `conflict`.
[[nodiscard]] sqlite3* database_of(Transaction& transaction);

struct JoinOptions {
  /// As the store's own.
  std::size_t keys_per_segment = 65'536;
  std::size_t max_payload_bytes = std::size_t{16} << 20;
  /// Borrowed; null: the machine's clock decides.
  const Clock* clock = nullptr;
};

/// Enqueues inside transactions that the caller begins and ends, on the caller's own connection to
/// the file of a store:
///
///     sqlite3_exec(database, "BEGIN IMMEDIATE", …);
///     … the caller's own statements …
///     JoinedTransaction transaction(database);
///     outbox.enqueue({.topic = "order.paid", .payload = order}, transaction);
///     sqlite3_exec(database, "COMMIT", …);
///
/// Workers of every process are woken by the commit. The object may be kept for further
/// transactions of the same connection; it holds nothing that they could take back. A key is looked
/// for in every segment of the index, which takes about 2 µs for each 65,536 stored messages.
///
/// Begin with IMMEDIATE: a transaction that has only read so far cannot wait for another that is
/// writing, and an enqueue then fails as `unavailable`.
class JoinedTransaction final : public Transaction {
 public:
  /// The connection is borrowed. Throws `conflict` when the file has not the schema of this
  /// library: open the store first; `out_of_range` as the store does.
  explicit JoinedTransaction(sqlite3* database, const JoinOptions& options = {});
  ~JoinedTransaction() override;

  [[nodiscard]] sqlite3* database() const noexcept;

 private:
  /// Throws `conflict` when no transaction is open.
  std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                         const EnqueueOptions& options) override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::sqlite
