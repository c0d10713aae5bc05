#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/transaction.hpp"

struct pg_conn;  // libpq's PGconn

namespace oncebox::postgresql {

/// The connection on which a transaction of a PostgreSQL store is open, for statements of one's
/// own: of the transaction that a handler was given, or of a `JoinedTransaction`. Throws
/// `unsupported` for a transaction of another kind of store.
///
/// In a handler it is borrowed from the store until the handler returns. It is in blocking mode,
/// out of pipeline mode, inside a transaction at READ COMMITTED; a statement is cancelled after the
/// store's call_timeout. The handler leaves it so, and neither commits nor rolls back; what is
/// prepared on it stays there for whoever has it next.
[[nodiscard]] pg_conn* connection_of(oncebox::Transaction& transaction);

struct JoinOptions {
  /// As the store's own.
  std::string schema = "infra";
  std::string table_prefix = "oncebox_";
  /// For tests: borrowed; null: the database's clock decides.
  const Clock* clock = nullptr;
};

/// Enqueues inside transactions that the caller begins and ends himself, on a connection of his own
/// to the database of a store:
///
///     PQexec(connection, "BEGIN");
///     … the caller's own statements …
///     JoinedTransaction transaction(connection);
///     outbox.enqueue({.topic = "order.paid", .payload = order}, transaction);
///     PQexec(connection, "COMMIT");
///
/// Workers that listen are woken by the commit. The object may be kept for further transactions of
/// the same connection. Meant for READ COMMITTED, the default: at a stricter level a message that
/// somebody else stores at the same time makes the transaction fail.
class JoinedTransaction final : public oncebox::Transaction {
 public:
  /// The connection is borrowed. Throws `invalid_argument` for names that are no identifiers.
  explicit JoinedTransaction(pg_conn* connection, const JoinOptions& options = {});
  ~JoinedTransaction() override;

  [[nodiscard]] pg_conn* connection() const noexcept;

 private:
  /// Throws `conflict` when no transaction is open, or the last statement in it failed.
  std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                         const EnqueueOptions& options) override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::postgresql
