#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "arrivals.hpp"
#include "connection.hpp"
#include "names.hpp"
#include "oncebox/error.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/postgresql/transaction.hpp"
#include "queue_sql.hpp"
#include "row_batch.hpp"

namespace oncebox::postgresql {

namespace {

// Every store hears it, also one of this process: none has it for a signature.
constexpr std::string_view kAnnouncement = "joined";

constexpr std::chrono::milliseconds kMaxCallTimeout = std::chrono::hours{24};

}  // namespace

struct JoinedTransaction::Impl {
  Impl(pg_conn* with, const JoinOptions& options)
      : connection(with),
        names(options.schema, options.table_prefix),
        max_payload_bytes(options.max_payload_bytes),
        call_timeout(options.call_timeout),
        clock(options.clock) {
    if (call_timeout <= std::chrono::milliseconds::zero() || call_timeout > kMaxCallTimeout) {
      throw Error(ErrorCode::out_of_range, "call_timeout is more than nothing, and a day at most");
    }
  }

  struct Queue {
    Queue(const Names& names, QueueKind kind)
        : name(to_string(kind)), channel(names.channel(name)), sql(names, name, {}) {}

    std::string name;
    std::string channel;
    QueueSql sql;
  };

  const Queue& queue_of(QueueKind kind) {
    std::optional<Queue>& queue = queues.at(static_cast<std::size_t>(kind));
    if (!queue) queue.emplace(names, kind);
    return *queue;
  }

  std::vector<EnqueueOutcome> enqueue(const Queue& queue, std::span<const Message> messages,
                                      const EnqueueOptions& options) {
    const std::optional<TimePoint> now =
        clock != nullptr ? std::optional(clock->now()) : std::nullopt;
    Connection joined(connection);
    postgresql::Transaction transaction =
        postgresql::Transaction::joined(joined, deadline_in(call_timeout));
    RowBatch rows(transaction, queue.sql, names, queue.name, now);
    const Arrivals arrivals(messages, now);
    std::vector<EnqueueOutcome> outcomes =
        take_in_joined(arrivals, rows, transaction, queue.sql, options);
    const bool brings = std::any_of(outcomes.begin(), outcomes.end(), brings_work);
    rows.write(brings ? std::optional(Announcement{queue.channel, kAnnouncement}) : std::nullopt);
    return outcomes;
  }

  pg_conn* const connection;
  const Names names;
  const std::size_t max_payload_bytes;
  const std::chrono::milliseconds call_timeout;
  const Clock* const clock;
  std::array<std::optional<Queue>, std::size(kQueueKinds)> queues;  // by kind
};

JoinedTransaction::JoinedTransaction(pg_conn* connection, const JoinOptions& options)
    : impl_(std::make_unique<Impl>(connection, options)) {
  if (connection == nullptr) {
    throw Error(ErrorCode::invalid_argument, "there is no PostgreSQL connection to join");
  }
}

JoinedTransaction::~JoinedTransaction() = default;

pg_conn* JoinedTransaction::connection() const noexcept { return impl_->connection; }

std::vector<EnqueueOutcome> JoinedTransaction::do_enqueue(QueueKind queue,
                                                          std::span<const Message> messages,
                                                          const EnqueueOptions& options) {
  std::size_t bytes = 0;
  for (const Message& message : messages) {
    bytes = checked_sum(bytes, message.payload, impl_->max_payload_bytes);
  }
  return impl_->enqueue(impl_->queue_of(queue), messages, options);
}

}  // namespace oncebox::postgresql
