#pragma once

#include <chrono>
#include <cstddef>
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
/// store's call_timeout. The handler leaves it so, and neither commits nor rolls back, which would
/// make the delivery fail; statements that it prepares stay on the connection.
[[nodiscard]] pg_conn* connection_of(oncebox::Transaction& transaction);

struct JoinOptions {
  /// As the store's own.
  std::string schema = "infra";
  std::string table_prefix = "oncebox_";
  /// One payload.
  std::size_t max_payload_bytes = std::size_t{16} << 20;
  /// How long a call may take, for example while it waits for another transaction that has enqueued
  /// for the same partition key. Then its statement is cancelled: `timeout`. A statement_timeout of
  /// the caller that is shorter counts instead.
  std::chrono::milliseconds call_timeout{30'000};
  /// For tests: borrowed; null: the database's clock decides.
  const Clock* clock = nullptr;
};

/// Enqueues inside transactions that the caller begins and ends, on the caller's own connection to
/// the database of a store:
///
///     PQexec(connection, "BEGIN");
///     … the caller's own statements …
///     JoinedTransaction transaction(connection);
///     outbox.enqueue({.topic = "order.paid", .payload = order}, transaction);
///     PQexec(connection, "COMMIT");
///
/// Workers that listen are woken by the commit. The object may be kept for further transactions of
/// the same connection.
///
/// Meant for READ COMMITTED, the default. At a stricter level a message that another one stores
/// at the same time makes the transaction fail, and one with a partition key is refused: the order
/// of its partition may have been changed since the transaction began to look.
///
/// After each call, also one that threw, the connection is blocking and not in pipeline mode, as it
/// was, unless it was lost or the server has not answered for some seconds longer than
/// call_timeout. Then close or reset it.
class JoinedTransaction final : public oncebox::Transaction {
 public:
  /// The connection is borrowed. Throws `invalid_argument` for names that are no identifiers, and
  /// `out_of_range` for a call_timeout that is no time.
  explicit JoinedTransaction(pg_conn* connection, const JoinOptions& options = {});
  ~JoinedTransaction() override;

  [[nodiscard]] pg_conn* connection() const noexcept;

 private:
  /// Throws `conflict` when no transaction is open, when the last statement in it failed, and for a
  /// partition key at another level than READ COMMITTED.
  std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                         const EnqueueOptions& options) override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::postgresql
