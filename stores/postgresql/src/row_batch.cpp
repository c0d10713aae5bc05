#include "row_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "oncebox/content_hash.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sql/attempt_code.hpp"
#include "oncebox/sql/header_json.hpp"
#include "oncebox/sql/storage_key.hpp"

namespace oncebox::postgresql {

namespace {

ArrayValue text_array(const std::set<std::string>& texts) {
  ArrayValue array(SqlType::text);
  for (const std::string& text : texts) array.add(std::string_view(text));
  return array;
}

}  // namespace

RowBatch::RowBatch(Transaction& transaction, const QueueSql& sql, const Names& names,
                   std::string_view queue, std::optional<TimePoint> now)
    : transaction_(transaction), sql_(sql), names_(names), queue_(queue), now_(now) {}

void RowBatch::lock_partitions(const std::set<std::string>& partitions) {
  if (partitions.empty()) return;
  // The server has room for some thousand locks, for everybody. Partitions that share one only wait
  // for each other.
  constexpr std::uint64_t kLocks = 1'024;
  const auto queue_number =
      static_cast<std::uint64_t>(names_.lock_number(fmt::format("partitions of {}", queue_)));
  std::set<std::int64_t> numbers;  // sorted: all callers take them in the same order
  for (const std::string& partition : partitions) {
    const auto number = static_cast<std::uint64_t>(names_.lock_number(partition));
    numbers.insert(static_cast<std::int64_t>((queue_number & ~(kLocks - 1)) | number % kLocks));
  }
  ArrayValue array(SqlType::bigint);
  for (const std::int64_t number : numbers) array.add(number);
  const Result locked = transaction_.run(sql_.lock_partitions, Parameters().add(std::move(array)));
  // PostgreSQL does not tell the two apart but by their names.
  const std::string_view isolation = locked.bytes(0, 0);
  if (isolation != "read committed" && isolation != "read uncommitted") {
    throw Error(ErrorCode::conflict,
                "a message with a partition key needs a transaction at READ COMMITTED: at a "
                "stricter level it does not see what others have enqueued for that key");
  }
  partitions_locked_.insert(partitions.begin(), partitions.end());
}

void RowBatch::load(std::span<const MessageKey> keys, NewRows new_rows) {
  std::set<sql::StorageKey> storage_keys;
  for (const MessageKey& key : keys) storage_keys.insert(sql::storage_key(key));
  ArrayValue array(SqlType::uuid);
  for (const sql::StorageKey& key : storage_keys) array.add(key);
  const Parameters all_keys = Parameters().add(std::move(array));
  const Parameters time = Parameters().add(now_);
  const bool numbered = new_rows == NewRows::possible && !first_number_;
  const std::array commands{
      Command{&sql_.runs.take_out, &all_keys}, Command{&sql_.runs.take_out_done, &all_keys},
      Command{&sql_.lock_keys, &all_keys}, Command{&sql_.read_keys, &all_keys},
      Command{numbered ? &sql_.read_time_and_number : &sql_.read_time, &time}};
  const std::vector<Result> results = transaction_.run_all(commands);
  const Result& locked_rows = results[2];
  const Result& time_row = results[4];
  std::unordered_set<std::int64_t> locked;
  for (int row = 0; row < locked_rows.rows(); ++row) locked.insert(locked_rows.int64(row, 0));
  now_ = time_row.time(0, 0);
  if (numbered) first_number_ = time_row.int64(0, 1) * kIdsPerNumber;
  take_rows(results[3], locked);
  const std::unordered_set<MessageKey> asked_for(keys.begin(), keys.end());
  for (const Row& row : rows_) {
    if (asked_for.contains(row.key)) continue;
    throw Error(ErrorCode::corrupt, "two message keys share a storage key; the message is refused");
  }
}

void RowBatch::load_ids(std::span<const std::int64_t> ids) {
  const auto id_array = [&] {
    ArrayValue array(SqlType::bigint);
    for (const std::int64_t id : ids) array.add(id);
    return Parameters().add(std::move(array));
  };
  const Result locked_rows = transaction_.run(sql_.lock_ids, id_array());
  std::unordered_set<std::int64_t> locked;
  ArrayValue readable(SqlType::bigint);
  for (int row = 0; row < locked_rows.rows(); ++row) {
    locked.insert(locked_rows.int64(row, 0));
    readable.add(locked_rows.int64(row, 0));
  }
  const Parameters to_read = Parameters().add(std::move(readable));
  const Parameters time = Parameters().add(now_);
  const std::array commands{Command{&sql_.read_ids, &to_read}, Command{&sql_.read_time, &time}};
  const std::vector<Result> results = transaction_.run_all(commands);
  now_ = results[1].time(0, 0);
  take_rows(results[0], locked);
}

void RowBatch::take_rows(const Result& result, const std::unordered_set<std::int64_t>& locked) {
  PartitionsNotLocked missing;
  for (int number = 0; number < result.rows(); ++number) {
    StoredMessage message = read_row(result, number, read_head::end);
    const bool is_done = message.state.status == Status::done;
    const bool is_in_run = result.boolean(number, read_head::in_run);
    if (is_in_run || (!is_done && !locked.contains(message.id))) {
      throw LostAgainstAnother("a message came while its key was looked up; repeat the call");
    }
    const std::optional<PartitionKey>& partition = message.state.partition_key;
    if (!is_done && partition && !partitions_locked_.contains(partition->str())) {
      missing.partitions.insert(partition->str());
    }
    Row& row = rows_.emplace_back(Row{std::move(message)});
    if (!result.is_null(number, read_head::payload_bytes)) {
      row.payload_bytes = result.int32(number, read_head::payload_bytes);
    }
    row.claim_bytes = result.int32(number, read_head::claim_bytes);
    row.is_done = is_done;
    if (row.content) row.stored_topic = row.content->topic;
    row.stored_priority = row.state.priority;
    row.stored_partition = row.state.partition_key;
    row.stored_due_at = row.state.due_at;
    row.stored_expires_at = row.state.expires_at;
    by_key_.emplace(row.key, &row);
  }
  if (!missing.partitions.empty()) {
    missing.partitions.insert(partitions_locked_.begin(), partitions_locked_.end());
    throw missing;
  }
}

void RowBatch::read_digests(std::span<const Message* const> messages, HashMismatchPolicy policy) {
  const bool compares_done = policy == HashMismatchPolicy::keep_first;
  std::unordered_map<std::int64_t, Row*> asked_for;
  for (const Message* const message : messages) {
    Row* const row = find(message->key);
    const bool is_compared = row != nullptr && row->content && (!row->is_done || compares_done) &&
                             !same_by_hash(row->state.hash, *message);
    if (is_compared) asked_for.emplace(row->id, row);
  }
  if (asked_for.empty()) return;
  ArrayValue ids(SqlType::bigint);
  for (const auto& [id, row] : asked_for) ids.add(id);
  const Result digests = transaction_.run(sql_.read_digests, Parameters().add(std::move(ids)));
  for (int number = 0; number < digests.rows(); ++number) {
    asked_for.at(digests.int64(number, 0))->payload_digest.emplace(digests.bytes(number, 1));
  }
}

bool RowBatch::has_payload_of(const Row& row, const Message& message) {
  if (row.is_new || row.payload_changed) return row.content->payload == message.payload;
  return row.payload_digest.value() == sha256(message.payload.bytes());
}

RowBatch::Row* RowBatch::find(const MessageKey& key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() || found->second->is_removed ? nullptr : found->second;
}

std::vector<RowBatch::Row*> RowBatch::rows() {
  std::vector<Row*> all;
  for (Row& row : rows_) all.push_back(&row);
  std::sort(all.begin(), all.end(), [](const Row* a, const Row* b) { return a->id < b->id; });
  return all;
}

RowBatch::Row* RowBatch::add_seen(const MessageKey& key, const std::optional<ContentHash>& hash,
                                  TimePoint now) {
  const auto id = static_cast<std::int64_t>(next_enqueue_order());
  Row& row = rows_.emplace_back(Row{StoredMessage{.id = id, .key = key, .state = {}}});
  row.is_new = true;
  row.state.hash = hash;
  row.state.history.first_seen_at = now;
  row.state.history.last_seen_at = now;
  row.state.eligible_at = now;
  by_key_.insert_or_assign(key, &row);
  return &row;
}

void RowBatch::touch(Row& row, TimePoint now, int duplicates) {
  row.state.history.last_seen_at = now;
  if (duplicates > 0) count_duplicate(row.state.history);
  if (row.is_done) {
    row.was_touched = true;
    row.new_duplicates += duplicates;
  } else {
    row.state_changed = true;
  }
}

/// What is to be written, gathered by statement.
class RowBatch::Writing {
 public:
  Writing(RowBatch& batch, const QueueSql& sql) : batch_(batch), sql_(sql) {
    std::map<sql::StorageKey, const Row*> new_rows;
    for (Row* row : batch.rows()) {
      add(*row);
      if (row->is_new && !row->is_removed) new_rows.emplace(sql::storage_key(row->key), row);
    }
    // In the order in which everybody inserts keys, so that two calls do not wait for each other.
    for (const auto& [key, row] : new_rows) put_new(key, *row);
  }

  /// The commands, in an order in which each finds what it needs. Valid as long as this object.
  [[nodiscard]] std::vector<Command> commands(const std::optional<Announcement>& announcement) {
    std::vector<Command> all;
    const auto use = [&](bool needed, const Statement& statement, Parameters parameters) {
      if (!needed) return;
      all.push_back({&statement, &parameters_.emplace_back(std::move(parameters))});
    };
    if (!priorities_.empty()) {
      ArrayValue array(SqlType::smallint);
      for (const std::int16_t priority : priorities_) array.add(priority);
      use(true, sql_.know_priorities, Parameters().add(std::move(array)));
    }
    use(!new_messages_.empty(), sql_.insert_messages, new_messages_.take());
    use(!new_work_.empty(), sql_.insert_work, new_work_.take());
    use(!messages_.empty(), sql_.update_messages, messages_.take());
    use(!work_.empty(), sql_.update_work, work_.take());
    use(!finished_.empty(), sql_.finish_work, finished_.take());
    use(!touched_.empty(), sql_.touch_done, touched_.take());
    use(!attempts_.empty(), sql_.keep_attempts, attempts_.take());
    if (removed_.size() > 0) use(true, sql_.remove, Parameters().add(std::move(removed_)));
    const std::set<std::string>& partitions = batch_.partitions_touched_;
    if (!partitions.empty()) {
      use(true, sql_.block_partitions, Parameters().add(text_array(partitions)));
      use(true, sql_.unblock_partitions, Parameters().add(text_array(partitions)));
    }
    if (announcement) {
      use(true, sql_.announce, Parameters().add(announcement->channel).add(announcement->text));
    }
    return all;
  }

 private:
  static constexpr std::array kTouchColumns{Column{"id", SqlType::bigint},
                                            Column{"last_seen_at", SqlType::timestamptz},
                                            Column{"duplicates", SqlType::integer}};

  void add(Row& row) {
    const bool is_changed = row.is_new || row.state_changed || row.is_removed;
    if (row.state.partition_key && is_changed && !row.is_done) {
      batch_.partitions_touched_.insert(row.state.partition_key->str());
    }
    if (row.is_removed) {
      if (!row.is_new) removed_.add(row.id);
      return;
    }
    if (row.is_new) return;
    if (row.ended_attempt && may_have_attempts(row.state)) put_attempt(row.id, *row.ended_attempt);
    if (row.payload_changed || row.hash_changed || schedule_changed(row)) put_content(row);
    if (row.is_done) {
      if (row.was_touched) {
        touched_.put(row.id).put(row.state.history.last_seen_at).put(row.new_duplicates);
      }
    } else if (row.state.status == Status::done) {
      put_done(finished_, row);
    } else if (row.state_changed) {
      note_priority(row);
      put_work(work_, row, stage_of(row.state, batch_.now()), claim_bytes_of(row));
    }
  }

  void put_attempt(std::int64_t id, const Attempt& attempt) {
    attempts_.put(id)
        .put(text_of(attempt.worker))
        .put(attempt.begun_at)
        .put(attempt.ended_at)
        .put(std::int32_t{sql::attempt_code(attempt.outcome)})
        .put(std::string_view(attempt.error_kind))
        .put(std::string_view(attempt.error));
  }

  static bool schedule_changed(const Row& row) {
    if (!row.state_changed) return false;
    return row.stored_priority != row.state.priority ||
           row.stored_partition != row.state.partition_key ||
           row.stored_due_at != row.state.due_at || row.stored_expires_at != row.state.expires_at ||
           (row.content && row.stored_topic != row.content->topic);
  }

  static int claim_bytes_of(const Row& row) {
    const int headers = row.headers_changed ? static_cast<int>(bytes_of(row.content->headers))
                                            : row.claim_bytes - row.payload_bytes;
    return headers + (row.payload_changed ? static_cast<int>(row.content->payload.size())
                                          : row.payload_bytes);
  }

  void note_priority(const Row& row) {
    const int priority = row.state.priority.value();
    if (priority != 0) priorities_.insert(static_cast<std::int16_t>(priority));
  }

  // Topic, payload and headers, or nothing; then the hash. What is not known here is not written.
  void put_given(RowArrays& rows, const Row& row) {
    using OptionalText = std::optional<std::string_view>;
    const std::optional<sql::Content>& content = row.content;
    const std::optional<std::string> headers =
        content ? sql::to_json(content->headers) : std::nullopt;
    rows.put(content ? OptionalText(content->topic.str()) : OptionalText())
        .put(content ? OptionalText(content->payload.bytes()) : OptionalText())
        .put(headers ? OptionalText(*headers) : OptionalText());
    const std::optional<ContentHash>& hash = row.state.hash;
    rows.put(hash ? OptionalText(hash->algorithm()) : OptionalText())
        .put(hash ? OptionalText(hash->digest()) : OptionalText());
  }

  static void put_schedule(RowArrays& rows, const MessageState& state) {
    rows.put(static_cast<std::int16_t>(state.priority.value()))
        .put(text_of(state.partition_key))
        .put(state.due_at)
        .put(state.expires_at);
  }

  void put_content(const Row& row) {
    messages_.put(row.id).put(!row.payload_changed).put(!row.headers_changed);
    put_given(messages_, row);
    put_schedule(messages_, row.state);
  }

  void put_new(const sql::StorageKey& key, const Row& row) {
    new_messages_.put(row.id)
        .put(key)
        .put(std::string_view(row.key.source.str()))
        .put(std::string_view(row.key.message_id.str()))
        .put(row.state.history.first_seen_at);
    put_given(new_messages_, row);
    put_schedule(new_messages_, row.state);
    note_priority(row);
    const int bytes = row.content ? static_cast<int>(bytes_of(*row.content)) : 0;
    put_work(new_work_, row, stage_of(row.state, batch_.now()), bytes);
  }

  RowBatch& batch_;
  const QueueSql& sql_;
  std::set<std::int16_t> priorities_;
  RowArrays new_messages_{kMessageColumns};
  RowArrays new_work_{kWorkColumns};
  RowArrays messages_{kContentColumns};
  RowArrays work_{kWorkColumns};
  RowArrays finished_{kDoneColumns};
  RowArrays touched_{kTouchColumns};
  RowArrays attempts_{kAttemptColumns};
  ArrayValue removed_{SqlType::bigint};
  std::deque<Parameters> parameters_;
};

void RowBatch::forget_rows() {
  by_key_.clear();
  rows_.clear();
}

void RowBatch::write(const std::optional<Announcement>& announcement) {
  Writing writing(*this, sql_);
  const std::vector<Command> commands = writing.commands(announcement);
  if (!commands.empty()) transaction_.run_all(commands);
}

std::vector<Result> RowBatch::commit(const std::optional<Announcement>& announcement,
                                     std::span<const Command> then) {
  Writing writing(*this, sql_);
  std::vector<Command> commands = writing.commands(announcement);
  commands.insert(commands.end(), then.begin(), then.end());
  std::vector<Result> results = transaction_.commit(commands);
  results.erase(results.begin(), results.end() - std::ssize(then));
  return results;
}

}  // namespace oncebox::postgresql
