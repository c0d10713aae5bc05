#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "names.hpp"
#include "oncebox/sql/intake.hpp"
#include "queue_row.hpp"
#include "queue_sql.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

/// A row belongs to a partition whose lock was not taken before the row's. The transaction is to be
/// repeated with these locks: taken in another order, two of them could wait for each other.
struct PartitionsNotLocked {
  std::set<std::string> partitions;
};

/// Says who brought work, so that a store need not listen to itself.
struct Announcement {
  std::string_view channel;
  std::string_view text;
};

/// The rows that one call is about, while it decides. They are locked and read together, changed
/// here, and written back together: a few statements, however many rows there are. Serves
/// `sql::Intake` as its rows.
class RowBatch {
 public:
  struct Row : StoredMessage {
    int payload_bytes = 0;  ///< as stored, of the payload alone
    int claim_bytes = 0;    ///< the same with headers
    /// As stored, of the payload; see `read_digests`.
    std::optional<std::string> payload_digest = {};
    bool is_new = false;
    bool is_done = false;  ///< stands in the table of those that are done
    bool state_changed = false;
    bool payload_changed = false;
    bool headers_changed = false;
    bool hash_changed = false;
    bool is_removed = false;
    int new_duplicates = 0;  ///< of one that is done
    bool was_touched = false;
    std::optional<Attempt> ended_attempt = {};
    /// What the message table has of the schedule.
    std::optional<Topic> stored_topic;
    Priority stored_priority;
    std::optional<PartitionKey> stored_partition;
    std::optional<TimePoint> stored_due_at;
    std::optional<TimePoint> stored_expires_at;
  };

  /// Everything is borrowed. `now` is what a test says; otherwise the database's time is read.
  RowBatch(Transaction& transaction, const QueueSql& sql, const Names& names,
           std::string_view queue, std::optional<TimePoint> now);

  /// Takes the locks of partitions, in their order, before any row is locked. Throws `conflict` in
  /// a transaction that does not see the commits of the transactions that had the locks before.
  void lock_partitions(const std::set<std::string>& partitions);

  /// The numbers that the items of this call may have: `first` and those behind it.
  void use_numbers(std::int64_t first) { first_number_ = first; }
  /// Says which item of the call is being decided upon: what becomes a row has its number, so that
  /// rows stand in the order of the items.
  void at_item(std::size_t place) {
    number_ = static_cast<std::uint64_t>(first_number_.value()) + place;
  }

  enum class NewRows { none, possible };
  /// Locks and reads what is stored under these keys, without payloads and headers: they stay in
  /// the database, because nobody knows how large they are together. Throws `PartitionsNotLocked`.
  void load(std::span<const MessageKey> keys, NewRows new_rows);
  /// The same by number; rows that another transaction has locked are left out.
  void load_ids(std::span<const std::int64_t> ids);

  /// Reads the digests of what these messages have as payload, where their hashes do not tell
  /// whether they are what is stored; for `has_payload_of`. What is done is compared under
  /// `keep_first` alone.
  void read_digests(std::span<const Message* const> messages, HashMismatchPolicy policy);

  [[nodiscard]] TimePoint now() const { return now_.value(); }
  [[nodiscard]] Row* find(const MessageKey& key);
  /// All rows that were read, in the order of their ids.
  [[nodiscard]] std::vector<Row*> rows();

  Row* add_seen(const MessageKey& key, const std::optional<ContentHash>& hash, TimePoint now);
  static void save(Row& row) { row.state_changed = true; }
  /// The same of a row whose delivery has ended, if one has. At most one ends in a call.
  static void save(Row& row, std::optional<Attempt> ended) {
    save(row);
    if (ended) row.ended_attempt = std::move(ended);
  }
  static void save_content(Row& row) {
    save_payload(row);
    row.headers_changed = true;
  }
  /// Of content whose headers stay.
  static void save_payload(Row& row) { row.payload_changed = true; }
  static void save_hash(Row& row) { row.hash_changed = true; }
  static void touch(Row& row, TimePoint now, int duplicates);
  [[nodiscard]] static bool has_payload_of(const Row& row, const Message& message);
  /// The number of the item at hand; see `at_item`.
  [[nodiscard]] std::uint64_t next_enqueue_order() const { return number_.value(); }
  static void remove(Row& row) { row.is_removed = true; }

  /// Notes that messages of a partition were added by other means.
  void touch_partition(const std::string& partition) { partitions_touched_.insert(partition); }

  /// Drops what was read, which nothing was decided upon, to read it again.
  void forget_rows();

  /// Writes everything back; the caller commits.
  void write(const std::optional<Announcement>& announcement);

  /// Writes everything back, runs what comes `then`, and commits, all in one exchange. Answers the
  /// results of `then`.
  std::vector<Result> commit(const std::optional<Announcement>& announcement,
                             std::span<const Command> then = {});

 private:
  class Writing;

  void take_rows(const Result& result, const std::unordered_set<std::int64_t>& locked);

  Transaction& transaction_;
  const QueueSql& sql_;
  const Names& names_;
  const std::string queue_;
  std::optional<TimePoint> now_;
  std::optional<std::int64_t> first_number_;
  std::optional<std::uint64_t> number_;
  std::set<std::string> partitions_locked_;
  std::set<std::string> partitions_touched_;
  std::deque<Row> rows_;  // never moves what is in it
  std::unordered_map<MessageKey, Row*> by_key_;
};

}  // namespace oncebox::postgresql
