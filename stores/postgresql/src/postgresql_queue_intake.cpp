#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/sql/header_json.hpp"
#include "oncebox/sql/intake.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "postgresql_queue.hpp"

namespace oncebox::postgresql {

/// One call of enqueue. What is new goes in with one statement; only what is known is looked at.
class PostgresqlQueue::Enqueueing {
 public:
  Enqueueing(PostgresqlQueue& queue, std::span<const Message> messages,
             const EnqueueOptions& options)
      : queue_(queue), messages_(messages), options_(options), outcomes_(messages.size()) {
    keys_.reserve(messages.size());
    for (const Message& message : messages) {
      keys_.push_back(sql::storage_key(message.key));
      if (message.partition_key) partitions_.insert(message.partition_key->str());
      const int priority = message.priority.value();
      if (priority != 0) priorities_.insert(static_cast<std::int16_t>(priority));
    }
  }

  std::vector<EnqueueOutcome> run() {
    if (messages_.size() == 1 && partitions_.empty() && enqueue_alone()) return outcomes_;
    if (messages_.size() > 1 && partitions_.empty() && !has_key_twice() && arrive()) {
      return outcomes_;
    }
    queue_.in_rows(partitions_, [&](RowBatch& rows, Transaction& transaction) {
      return enqueue_in(rows, transaction);
    });
    return outcomes_;
  }

 private:
  [[nodiscard]] bool has_key_twice() const {
    std::vector<sql::StorageKey> sorted = keys_;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  }

  // The place behind the messages that can share a row with the one at `first`.
  [[nodiscard]] std::size_t end_of_run(std::size_t first) const {
    const auto is_plain = [](const Message& message) {
      return !message.due_at && !message.expires_at;
    };
    if (!is_plain(messages_[first])) return first + 1;
    const std::size_t limit = std::min(messages_.size(), first + std::size_t{kMaxRunLength});
    std::size_t end = first + 1;
    while (end < limit && is_plain(messages_[end]) &&
           messages_[end].topic == messages_[first].topic &&
           messages_[end].priority == messages_[first].priority) {
      ++end;
    }
    return end;
  }

  // Stores all messages if all of them are new; else false, and nothing has changed.
  bool arrive() {
    RowArrays messages(kArrivalColumns);
    for (const std::size_t place : places_by_key()) {
      put_message(messages, place);
      messages.put(messages_[place].due_at).put(messages_[place].expires_at);
    }
    RowArrays runs(kArrivingRunColumns);
    RowArrays singles(kArrivingSingleColumns);
    for (std::size_t first = 0, end = 0; first < messages_.size(); first = end) {
      end = end_of_run(first);
      if (end - first > 1) {
        put_run(runs, first, end - 1);
      } else {
        put_single(singles, first);
      }
    }
    Parameters values = messages.take();
    runs.move_to(values);
    singles.move_to(values);
    values.add(queue_.test_time());
    try {
      return insert_alone(queue_.sql_.runs.arrive, values);
    } catch (const LostAgainstAnother&) {
      return false;  // somebody has just stored one of them
    }
  }

  void put_run(RowArrays& runs, std::size_t first, std::size_t last) const {
    std::size_t bytes = 0;
    for (std::size_t i = first; i <= last; ++i) bytes += messages_[i].payload.size();
    runs.put(static_cast<std::int64_t>(first))
        .put(static_cast<std::int64_t>(last))
        .put(static_cast<std::int16_t>(messages_[first].priority.value()))
        .put(std::string_view(messages_[first].topic.str()))
        .put(static_cast<std::int64_t>(bytes));
  }

  void put_single(RowArrays& singles, std::size_t place) const {
    const Message& message = messages_[place];
    singles.put(static_cast<std::int64_t>(place))
        .put(static_cast<std::int16_t>(message.priority.value()))
        .put(std::string_view(message.topic.str()))
        .put(message.due_at)
        .put(message.expires_at)
        .put(static_cast<std::int32_t>(message.payload.size()));
  }

  // Whether the statement, a transaction by itself, has stored something.
  bool insert_alone(const Statement& insert, const Parameters& values) {
    const Parameters priorities = priority_array();
    std::vector<Command> commands;
    if (!priorities_.empty()) commands.push_back({&queue_.sql_.know_priorities, &priorities});
    commands.push_back({&insert, &values});
    ConnectionPool& pool = queue_.parts_.pool;
    const Deadline deadline = pool.deadline();
    const ConnectionPool::Lease connection = pool.acquire(deadline);
    const std::vector<Result> results = run_announced(*connection, commands, deadline);
    return !results[priorities_.empty() ? 0 : 1].empty();
  }

  // A single new message needs no transaction around it. False when it was not new; then nothing
  // has changed.
  bool enqueue_alone() {
    const Parameters values = message_arrays();
    return repeating([&] { return insert_alone(queue_.sql_.enqueue, values); });
  }

  std::vector<Result> run_announced(Connection& connection, std::vector<Command> commands,
                                    Deadline deadline) {
    const std::optional<Announcement> announcement = queue_.announcer_.next();
    Parameters announced;
    if (announcement) {
      announced.add(announcement->channel).add(announcement->text);
      commands.push_back({&queue_.sql_.announce, &announced});
    }
    std::vector<Result> results = connection.run_all(commands, Exchange::commits, deadline);
    if (!announcement) queue_.announcer_.soon();
    return results;
  }

  bool enqueue_in(RowBatch& rows, Transaction& transaction) {
    std::fill(outcomes_.begin(), outcomes_.end(), EnqueueOutcome{});
    const std::vector<std::size_t> known = insert_new(rows, transaction);
    for (const std::string& partition : partitions_) rows.touch_partition(partition);
    if (!known.empty()) enqueue_known(rows, known);
    const bool brings = std::any_of(outcomes_.begin(), outcomes_.end(), brings_work);
    queue_.commit(rows, brings);
    return brings;
  }

  // Answers the places of those that were not new, in order.
  std::vector<std::size_t> insert_new(RowBatch& rows, Transaction& transaction) {
    const Parameters values = message_arrays();
    const Parameters priorities = priority_array();
    std::vector<Command> commands;
    if (!priorities_.empty()) commands.push_back({&queue_.sql_.know_priorities, &priorities});
    commands.push_back({&queue_.sql_.enqueue, &values});
    const std::vector<Result> results = transaction.run_all(commands);
    const Result& inserted = results.back();
    if (!inserted.empty()) {
      rows.use_numbers(inserted.bigint(0, 0) / kIdsPerNumber * kIdsPerNumber);
    }
    std::vector<bool> is_new(messages_.size());
    for (int row = 0; row < inserted.rows(); ++row) {
      is_new[static_cast<std::size_t>(inserted.bigint(row, 0) % kIdsPerNumber)] = true;
    }
    std::vector<std::size_t> known;
    for (std::size_t i = 0; i < is_new.size(); ++i) {
      if (!is_new[i]) known.push_back(i);
    }
    return known;
  }

  void enqueue_known(RowBatch& rows, const std::vector<std::size_t>& known) {
    std::vector<MessageKey> keys;
    for (const std::size_t i : known) {
      keys.push_back(messages_[i].key);
      if (options_.on_hash_mismatch == HashMismatchPolicy::quarantine && messages_[i].hash) {
        keys.push_back(quarantined_copy(messages_[i]).key);
      }
    }
    rows.load(keys, RowBatch::Payloads::include, RowBatch::NewRows::possible);
    sql::Intake intake(rows, rows.now());
    for (const std::size_t i : known) {
      RowBatch::Row* const row = rows.find(messages_[i].key);
      if (row == nullptr) {
        throw LostAgainstAnother("a message was removed while it was enqueued again");
      }
      rows.at_item(i);
      outcomes_[i] = intake.enqueue_again(*row, messages_[i], options_);
    }
  }

  // Sorted by key: two calls with the same keys in another order would wait for each other.
  std::vector<std::size_t> places_by_key() const {
    std::vector<std::size_t> order(messages_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(keys_[a], a) < std::tie(keys_[b], b);
    });
    return order;
  }

  Parameters message_arrays() const {
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
    parameters.add(queue_.test_time());
    return parameters;
  }

  void put_message(RowArrays& rows, std::size_t place) const {
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

  Parameters priority_array() const {
    ArrayValue array(SqlType::smallint);
    for (const std::int16_t priority : priorities_) array.add(priority);
    return Parameters().add(std::move(array));
  }

  PostgresqlQueue& queue_;
  const std::span<const Message> messages_;
  const EnqueueOptions& options_;
  std::vector<EnqueueOutcome> outcomes_;
  std::vector<sql::StorageKey> keys_;
  std::set<std::string> partitions_;
  std::set<std::int16_t> priorities_;
};

std::vector<EnqueueOutcome> PostgresqlQueue::do_enqueue(std::span<const Message> messages,
                                                        const EnqueueOptions& options) {
  // The server takes a parameter of 1 GiB at most.
  constexpr std::size_t kMaxCallBytes = std::size_t{256} << 20;
  const std::size_t max_payload_bytes = parts_.pool.options().max_payload_bytes;
  std::size_t bytes = 0;
  for (const Message& message : messages) {
    bytes += message.payload.size();
    if (bytes > kMaxCallBytes) {
      throw Error(ErrorCode::invalid_argument,
                  "the payloads of one call have more than 256 MiB together; split the batch");
    }
    if (message.payload.size() <= max_payload_bytes) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a payload has {} bytes; this store takes at most {}",
                            message.payload.size(), max_payload_bytes));
  }
  std::vector<EnqueueOutcome> outcomes = Enqueueing(*this, messages, options).run();
  if (std::any_of(outcomes.begin(), outcomes.end(), brings_work)) listeners_.notify();
  return outcomes;
}

std::vector<ObserveOutcome> PostgresqlQueue::do_observe(std::span<const Observation> observations) {
  std::vector<MessageKey> keys;
  for (const Observation& observation : observations) keys.push_back(observation.key);
  return in_rows({}, [&](RowBatch& rows, Transaction&) {
    rows.load(keys, RowBatch::Payloads::omit, RowBatch::NewRows::possible);
    sql::Intake intake(rows, rows.now());
    std::vector<ObserveOutcome> outcomes;
    outcomes.reserve(observations.size());
    for (std::size_t i = 0; i < observations.size(); ++i) {
      rows.at_item(i);
      outcomes.push_back(intake.observe(observations[i]));
    }
    rows.commit(std::nullopt);
    return outcomes;
  });
}

std::vector<MarkOutcome> PostgresqlQueue::do_mark(std::span<const Mark> marks) {
  std::vector<MessageKey> keys;
  for (const Mark& mark : marks) keys.push_back(mark.key);
  std::vector<MarkOutcome> outcomes = in_rows({}, [&](RowBatch& rows, Transaction&) {
    rows.load(keys, RowBatch::Payloads::omit, RowBatch::NewRows::none);
    std::vector<MarkOutcome> answers;
    answers.reserve(marks.size());
    for (const Mark& mark : marks) {
      RowBatch::Row* const row = rows.find(mark.key);
      if (row == nullptr) {
        answers.push_back(MarkOutcome::unknown);
        continue;
      }
      answers.push_back(apply_mark(row->state, mark.as, error_text(mark.error), rows.now()));
      if (answers.back() == MarkOutcome::marked) RowBatch::save(*row);
    }
    commit(rows, true);
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

}  // namespace oncebox::postgresql
