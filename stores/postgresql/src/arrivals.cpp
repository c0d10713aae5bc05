#include "arrivals.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/sql/header_json.hpp"
#include "oncebox/sql/intake.hpp"

namespace oncebox::postgresql {

Arrivals::Arrivals(std::span<const Message> messages, const std::optional<TimePoint>& now)
    : messages_(messages), now_(now) {
  keys_.reserve(messages.size());
  for (const Message& message : messages) {
    keys_.push_back(sql::storage_key(message.key));
    if (message.partition_key) partitions_.insert(message.partition_key->str());
    const int priority = message.priority.value();
    if (priority != 0) priorities_.insert(static_cast<std::int16_t>(priority));
  }
}

bool Arrivals::has_key_twice() const {
  std::vector<sql::StorageKey> sorted = keys_;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

std::vector<std::size_t> Arrivals::places_by_key() const {
  std::vector<std::size_t> order(messages_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(keys_[a], a) < std::tie(keys_[b], b);
  });
  return order;
}

void Arrivals::put_message(RowArrays& rows, std::size_t place) const {
  using Text = std::optional<std::string_view>;
  const Message& message = messages_[place];
  const std::optional<std::string> headers = sql::to_json(message.headers);
  const auto priority = static_cast<std::int16_t>(message.priority.value());
  rows.put(static_cast<std::int64_t>(place))
      .put(keys_[place])
      .put(std::string_view(message.key.source.str()))
      .put(std::string_view(message.key.message_id.str()))
      .put(std::string_view(message.topic.str()))
      .put(std::string_view(message.payload.bytes()))
      .put(headers ? Text(*headers) : Text())
      .put(message.hash ? Text(message.hash->algorithm()) : Text())
      .put(message.hash ? Text(message.hash->digest()) : Text())
      .put(priority != 0 ? std::optional(priority) : std::nullopt);
}

Parameters Arrivals::enqueue_values() const {
  RowArrays rows(kEnqueueColumns);
  for (const std::size_t place : places_by_key()) {
    const Message& message = messages_[place];
    put_message(rows, place);
    rows.put(message.partition_key ? std::optional<std::string_view>(message.partition_key->str())
                                   : std::nullopt)
        .put(message.due_at)
        .put(message.expires_at);
  }
  Parameters parameters = rows.take();
  parameters.add(now_);
  return parameters;
}

Parameters Arrivals::priority_array() const {
  ArrayValue array(SqlType::smallint);
  for (const std::int16_t priority : priorities_) array.add(priority);
  return Parameters().add(std::move(array));
}

namespace {

// Answers the places of those that were not new, in order.
std::vector<std::size_t> insert_new(const Arrivals& arrivals, RowBatch& rows,
                                    Transaction& transaction, const QueueSql& sql,
                                    const Statement& enqueue) {
  const Parameters values = arrivals.enqueue_values();
  const Parameters priorities = arrivals.priority_array();
  std::vector<Command> commands;
  if (arrivals.has_priorities()) commands.push_back({&sql.know_priorities, &priorities});
  commands.push_back({&enqueue, &values});
  const std::vector<Result> results = transaction.run_all(commands);
  const Result& inserted = results.back();
  if (!inserted.empty()) {
    rows.use_numbers(inserted.int64(0, 0) / kIdsPerNumber * kIdsPerNumber);
  }
  std::vector<bool> is_new(arrivals.messages().size());
  for (int row = 0; row < inserted.rows(); ++row) {
    is_new[static_cast<std::size_t>(inserted.int64(row, 0) % kIdsPerNumber)] = true;
  }
  std::vector<std::size_t> known;
  for (std::size_t i = 0; i < is_new.size(); ++i) {
    if (!is_new[i]) known.push_back(i);
  }
  return known;
}

void load_known(const Arrivals& arrivals, RowBatch& rows, const std::vector<std::size_t>& known,
                const EnqueueOptions& options) {
  const std::span<const Message> messages = arrivals.messages();
  std::vector<MessageKey> keys;
  std::vector<const Message*> compared;
  for (const std::size_t i : known) {
    keys.push_back(messages[i].key);
    compared.push_back(&messages[i]);
    if (options.on_hash_mismatch == HashMismatchPolicy::quarantine && messages[i].hash) {
      keys.push_back(quarantined_copy(messages[i]).key);
    }
  }
  rows.load(keys, RowBatch::NewRows::possible);
  rows.read_digests(compared, options.on_hash_mismatch);
}

void enqueue_known(const Arrivals& arrivals, RowBatch& rows, const std::vector<std::size_t>& known,
                   const EnqueueOptions& options, std::vector<EnqueueOutcome>& outcomes) {
  const std::span<const Message> messages = arrivals.messages();
  sql::Intake intake(rows, rows.now());
  for (const std::size_t i : known) {
    RowBatch::Row* const row = rows.find(messages[i].key);
    if (row == nullptr) {
      throw LostAgainstAnother("a message was removed while it was enqueued again");
    }
    rows.at_item(i);
    outcomes[i] = intake.enqueue_again(*row, messages[i], options);
  }
}

template <class Load>
std::vector<EnqueueOutcome> take_in_with(const Arrivals& arrivals, RowBatch& rows,
                                         Transaction& transaction, const QueueSql& sql,
                                         const EnqueueOptions& options, const Statement& enqueue,
                                         Load load) {
  std::vector<EnqueueOutcome> outcomes(arrivals.messages().size());
  const std::vector<std::size_t> known = insert_new(arrivals, rows, transaction, sql, enqueue);
  for (const std::string& partition : arrivals.partitions()) rows.touch_partition(partition);
  if (known.empty()) return outcomes;
  load(known);
  enqueue_known(arrivals, rows, known, options, outcomes);
  return outcomes;
}

}  // namespace

std::vector<EnqueueOutcome> take_in(const Arrivals& arrivals, RowBatch& rows,
                                    Transaction& transaction, const QueueSql& sql,
                                    const EnqueueOptions& options) {
  return take_in_with(arrivals, rows, transaction, sql, options, sql.enqueue,
                      [&](const auto& known) { load_known(arrivals, rows, known, options); });
}

namespace {

const Statement kFail{"", "SELECT 1 / (pg_backend_pid() - pg_backend_pid())"};

// Makes a transaction in which a part of a call was done one that can only be rolled back: its
// owner may pass over our error, and must not commit the part.
void spoil(Transaction& transaction) noexcept {
  try {
    transaction.run(kFail, Parameters());
  } catch (const std::exception&) {
    // As intended.
  }
}

// Locks that turn out to be missing are taken late, and so in another order than others take them:
// if that makes two transactions wait for each other, the database ends one of them.
void load_known_locking(const Arrivals& arrivals, RowBatch& rows,
                        const std::vector<std::size_t>& known, const EnqueueOptions& options) {
  try {
    return load_known(arrivals, rows, known, options);
  } catch (const PartitionsNotLocked& missing) {
    rows.forget_rows();
    rows.lock_partitions(missing.partitions);
  }
  try {
    load_known(arrivals, rows, known, options);
  } catch (const PartitionsNotLocked&) {
    throw LostAgainstAnother("a message changed its partition while it was enqueued again");
  }
}

}  // namespace

std::vector<EnqueueOutcome> take_in_joined(const Arrivals& arrivals, RowBatch& rows,
                                           Transaction& transaction, const QueueSql& sql,
                                           const EnqueueOptions& options) {
  rows.lock_partitions(arrivals.partitions());
  const auto load = [&](const std::vector<std::size_t>& known) {
    load_known_locking(arrivals, rows, known, options);
  };
  try {
    return take_in_with(arrivals, rows, transaction, sql, options, sql.enqueue_late, load);
  } catch (...) {
    spoil(transaction);
    throw;
  }
}

std::size_t checked_sum(std::size_t bytes, const Payload& payload, std::size_t max_payload_bytes) {
  // The server takes a parameter of 1 GiB at most.
  constexpr std::size_t kMaxCallBytes = std::size_t{256} << 20;
  if (bytes + payload.size() > kMaxCallBytes) {
    throw Error(ErrorCode::invalid_argument,
                "the payloads of one call have more than 256 MiB together; split the batch");
  }
  require_payload_size(payload.size(), max_payload_bytes);
  return bytes + payload.size();
}

}  // namespace oncebox::postgresql
