#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/sqlite/transaction.hpp"
#include "queue_intake.hpp"
#include "queue_table.hpp"
#include "schema.hpp"
#include "store_transaction.hpp"
#include "topic_names.hpp"

namespace oncebox::sqlite {

namespace {

JoinOptions validated(const JoinOptions& options) {
  require_in_range("keys_per_segment", options.keys_per_segment, 1, std::size_t{1} << 20);
  require_in_range("max_payload_bytes", options.max_payload_bytes, 1, limits::kMaxClaimBytes);
  return options;
}

}  // namespace

/// Nothing here outlives a call but statements: whatever else was read may be taken back.
struct JoinedTransaction::Impl {
  Impl(sqlite3* database, const JoinOptions& join_options)
      : options(validated(join_options)),
        connection(database),
        topics(connection),
        clock(options.clock != nullptr ? *options.clock : SystemClock::shared()) {
    require_current_schema(connection);
  }

  QueueTable& table_of(QueueKind queue) {
    std::optional<QueueTable>& table = tables.at(static_cast<std::size_t>(queue));
    if (!table) {
      table.emplace(connection, to_string(queue), topics,
                    QueueTable::Settings{.keys_per_segment = options.keys_per_segment,
                                         .filter = KeyFilter::none});
    }
    return *table;
  }

  std::vector<EnqueueOutcome> enqueue(QueueKind queue, std::span<const Message> messages,
                                      const EnqueueOptions& enqueue_options) {
    QueueTable& table = table_of(queue);
    topics.forget();
    table.begin_call();
    std::vector<EnqueueOutcome> outcomes = take_in(table, messages, enqueue_options, clock.now());
    table.end_call();
    return outcomes;
  }

  const JoinOptions options;
  Connection connection;
  TopicNumbers topics;
  const Clock& clock;
  std::array<std::optional<QueueTable>, std::size(kQueueKinds)> tables;  // by kind
};

JoinedTransaction::JoinedTransaction(sqlite3* database, const JoinOptions& options)
    : impl_(std::make_unique<Impl>(database, options)) {}

JoinedTransaction::~JoinedTransaction() = default;

sqlite3* JoinedTransaction::database() const noexcept { return impl_->connection.handle(); }

std::vector<EnqueueOutcome> JoinedTransaction::do_enqueue(QueueKind queue,
                                                          std::span<const Message> messages,
                                                          const EnqueueOptions& options) {
  Connection& connection = impl_->connection;
  if (!connection.in_transaction()) {
    throw Error(ErrorCode::conflict,
                "no transaction is open on this connection; run BEGIN IMMEDIATE first");
  }
  for (const Message& message : messages) {
    require_payload_size(message.payload.size(), impl_->options.max_payload_bytes);
  }
  connection.execute("SAVEPOINT oncebox_enqueue");
  try {
    std::vector<EnqueueOutcome> outcomes = impl_->enqueue(queue, messages, options);
    connection.execute("RELEASE oncebox_enqueue");
    return outcomes;
  } catch (...) {
    // A full disk or a disk error may have ended the caller's whole transaction.
    if (connection.in_transaction()) {
      connection.execute("ROLLBACK TO oncebox_enqueue; RELEASE oncebox_enqueue");
    }
    throw;
  }
}

sqlite3* database_of(Transaction& transaction) {
  if (const auto* joined = dynamic_cast<const JoinedTransaction*>(&transaction)) {
    return joined->database();
  }
  if (const auto* own = dynamic_cast<const StoreTransaction*>(&transaction)) {
    return own->database();
  }
  throw Error(ErrorCode::unsupported, "this is no transaction of a SQLite store");
}

}  // namespace oncebox::sqlite
