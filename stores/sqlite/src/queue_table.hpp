#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "connection.hpp"
#include "key_index.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/driver/claim_allowance.hpp"
#include "oncebox/sql/worker_sightings.hpp"
#include "queue_lanes.hpp"
#include "queue_row.hpp"
#include "topic_names.hpp"

namespace oncebox::sqlite {

/// The rows of one queue, for calls that write. Used on the writer's thread only, inside a
/// transaction; each call is framed by `begin_call` and `end_call`.
class QueueTable {
 public:
  struct Settings {
    std::size_t keys_per_segment = 0;
    std::size_t kept_attempts = defaults::kKeptAttempts;
    KeyFilter filter = KeyFilter::in_memory;
  };

  QueueTable(Connection& connection, std::string_view queue, TopicNumbers& topics,
             const Settings& settings);

  /// Makes the filter of the keys, in a transaction of its own that only reads: with millions of
  /// messages it takes seconds, in which others must be able to write. Called before the first
  /// call.
  void load_keys();

  /// What happened to the transactions of the calls so far.
  void committed() noexcept { keys_.committed(); }
  void rolled_back() noexcept {
    keys_.rolled_back();
    workers_.forget();
  }

  void begin_call();
  /// Writes what was gathered during the call: counters, and who is now first in a partition.
  void end_call();
  /// Finds out who is now first in the partitions that were touched, for a claim to go by.
  void settle_partitions();

  /// The message under a key, or with a number. Throws `corrupt` when another key has the same
  /// storage key.
  [[nodiscard]] std::optional<QueueRow> find(const MessageKey& key);
  [[nodiscard]] QueueRow get(std::int64_t id);

  /// Takes in a message that is new; false when its key is known, and then nothing has changed.
  [[nodiscard]] bool insert(const Message& message, TimePoint now);
  /// Adds a key that was only seen. It must be new.
  std::optional<QueueRow> add_seen(const MessageKey& key, const std::optional<ContentHash>& hash,
                                   TimePoint now);

  /// Writes the state of a row back, and where it stands.
  void save(QueueRow& row);
  /// Writes payload, headers and hash back.
  void save_content(const QueueRow& row);
  void save_hash(const QueueRow& row) { save_content(row); }
  /// Notes that a known key came again.
  void touch(const QueueRow& row, TimePoint now, int duplicates);
  void remove(const QueueRow& row);
  [[nodiscard]] static bool has_payload_of(const QueueRow& row, const Message& message) {
    return row.content->payload == message.payload;
  }

  /// How much is kept of what edits replaced in a message, and what the next one adds to it.
  [[nodiscard]] PastContentTotals past_content_totals(const QueueRow& row);
  void keep(const QueueRow& row, const PastContent& past);

  /// Adds an attempt to those of a message, and lets go of the oldest when there are too many. One
  /// that succeeded is added only to others.
  void keep(const QueueRow& row, const Attempt& attempt);

  [[nodiscard]] std::uint64_t next_enqueue_order();

  /// What a claim may take, best first: at most `limit` of the selected topics, as many of them as
  /// the allowance lets it take, and no more than `max_bytes` unless the first alone has more.
  [[nodiscard]] std::vector<QueueRow> best_ready(const ClaimRequest& request,
                                                 ClaimAllowance& allowance, TimePoint now);
  /// Adds what is leased to the uses of the policies' limits.
  void count_leased(std::span<LimitUse> uses, const TopicPolicies& policies);
  /// Hands these messages out to a worker, from now on.
  void lease(std::span<QueueRow> rows, const ClaimRequest& request, const WorkerName& worker,
             TimePoint now);
  /// Notes that a worker was given nothing.
  void note_idle(const WorkerName& worker, TimePoint now) { worker_number(worker, now); }
  /// Forgets those that hold nothing and were not seen for long.
  void forget_workers(TimePoint now);

  /// A delivery by the numbers that this process knows of it.
  struct Handout {
    std::int64_t id = 0;
    std::int64_t topic = 0;
    std::uint64_t delivery = 0;
    bool may_have_attempts = false;
  };
  /// Finds a delivery that this process was given without looking for its key.
  [[nodiscard]] std::optional<Handout> handout_of(const Delivery& delivery) const;
  /// Acknowledges deliveries of different messages to one owner, with one statement for those that
  /// may have attempts and one for the others. Answers the ids of those that still held their
  /// message, and about which nothing else is to be done; the others are as before.
  [[nodiscard]] std::unordered_set<std::int64_t> acknowledge(std::span<const Handout> handouts,
                                                             const OwnerToken& owner,
                                                             TimePoint now);

  /// Rows whose lease has lapsed, or that expired without one.
  [[nodiscard]] std::vector<std::int64_t> lapsed(TimePoint now, std::size_t limit);
  [[nodiscard]] std::vector<std::int64_t> expired(TimePoint now, std::size_t limit);
  /// Rows that became done, or dead, at `until` or before; the first to finish first.
  [[nodiscard]] std::vector<std::int64_t> finished(Stage stage, TimePoint until, std::size_t limit);

  /// When the last message was first seen; the beginning of time when there is none.
  [[nodiscard]] TimePoint newest();
  /// `oncebox::mend_times` for every row.
  void mend_times(TimePoint now);

 private:
  struct Remembered {
    Handout handout;
    std::size_t key_hash = 0;
  };

  struct Counters {
    std::int64_t last_id = 0;
    std::int64_t last_delivery = 0;
    std::int64_t segment = 0;
    std::int64_t segment_keys = 0;
    bool changed = false;
  };

  struct Statements {
    Statements(Connection& connection, std::string_view queue);

    Statement find_id, insert_message, insert_state, insert_accepted, update_state, update_content,
        touch, delete_message, delete_state, load_counters, save_counters, add_done, lane_rows,
        listed_rows, lease, leased_topics, acknowledge_untried, acknowledge_tried, add_successes,
        lapsed, expired, done_until, dead_until, partition_first, partition_exposed, set_stage,
        past_totals, insert_past, delete_past, see_worker, add_worker, forget_workers, last_attempt,
        insert_attempt, delete_attempts;
  };

  class LaneMerge;

  Counters& counters();
  /// The id of the new row; nothing when the key is in the current segment.
  std::optional<std::int64_t> insert_message(const MessageKey& key,
                                             const sql::StorageKey& storage_key,
                                             const Message* message,
                                             const std::optional<ContentHash>& hash, TimePoint now);
  [[nodiscard]] std::vector<std::int64_t> best_ids(const ClaimRequest& request,
                                                   ClaimAllowance& allowance, TimePoint now);
  void settle_partition(const std::string& key);
  [[nodiscard]] std::optional<std::int64_t> first_in_partition(const std::string& key, Stage stage);
  [[nodiscard]] static std::vector<std::int64_t> ids(Statement& statement);
  void remember(const QueueRow& row);
  /// Adds a success to the attempts of each message that has some.
  void add_successes(std::span<const std::int64_t> done);
  void drop_old_attempts(std::int64_t id, std::int64_t last_number);
  /// The number of the worker's row, which says, now and then, when the worker was last seen.
  std::int64_t worker_number(const WorkerName& name, TimePoint now);
  [[nodiscard]] std::int64_t topic_number(const QueueRow& row);

  Connection& connection_;
  const std::string queue_;
  const std::size_t kept_attempts_;
  TopicNumbers& topics_;
  LaneWalk lanes_;
  KeyIndex keys_;
  Statements sql_;
  std::optional<Counters> counters_;
  std::map<std::int64_t, std::int64_t> done_added_;         ///< by topic, during this call
  std::set<std::string> partitions_touched_;                ///< during this call
  std::unordered_map<std::uint64_t, Remembered> handouts_;  ///< by delivery
  sql::WorkerSightings workers_;
};

}  // namespace oncebox::sqlite
