#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "connection.hpp"
#include "names.hpp"
#include "oncebox/defaults.hpp"
#include "row_arrays.hpp"
#include "run_sql.hpp"

namespace oncebox::postgresql {

/// Ids are numbers of a sequence times this, plus the place in the call: so one call needs one
/// number, and its messages keep their order.
inline constexpr std::int64_t kIdsPerNumber = 16'384;

/// What an enqueue sends of each message; no priority means 0.
inline constexpr std::array kEnqueueColumns{
    Column{"place", SqlType::bigint},
    Column{"key", SqlType::uuid},
    Column{"source", SqlType::text},
    Column{"message_id", SqlType::text},
    Column{"topic", SqlType::text},
    Column{"payload", SqlType::bytea},
    Column{"headers", SqlType::text},
    Column{"hash_algorithm", SqlType::text},
    Column{"hash", SqlType::bytea},
    Column{"priority", SqlType::smallint},
    Column{"partition_key", SqlType::text},
    Column{"due_at", SqlType::timestamptz},
    Column{"expires_at", SqlType::timestamptz},
};

/// The row of a message that was not enqueued in the ordinary way.
inline constexpr std::array kMessageColumns{
    Column{"id", SqlType::bigint},
    Column{"key", SqlType::uuid},
    Column{"source", SqlType::text},
    Column{"message_id", SqlType::text},
    Column{"first_seen_at", SqlType::timestamptz},
    Column{"topic", SqlType::text},
    Column{"payload", SqlType::bytea},
    Column{"headers", SqlType::text},
    Column{"hash_algorithm", SqlType::text},
    Column{"hash", SqlType::bytea},
    Column{"priority", SqlType::smallint},
    Column{"partition_key", SqlType::text},
    Column{"due_at", SqlType::timestamptz},
    Column{"expires_at", SqlType::timestamptz},
};

/// What new content or a new schedule changes in it.
inline constexpr std::array kContentColumns{
    Column{"id", SqlType::bigint},
    Column{"keeps_payload", SqlType::boolean},
    Column{"keeps_headers", SqlType::boolean},
    Column{"topic", SqlType::text},
    Column{"payload", SqlType::bytea},
    Column{"headers", SqlType::text},
    Column{"hash_algorithm", SqlType::text},
    Column{"hash", SqlType::bytea},
    Column{"priority", SqlType::smallint},
    Column{"partition_key", SqlType::text},
    Column{"due_at", SqlType::timestamptz},
    Column{"expires_at", SqlType::timestamptz},
};

/// An attempt that has ended.
inline constexpr std::array kAttemptColumns{
    Column{"id", SqlType::bigint},
    Column{"worker", SqlType::text},
    Column{"begun_at", SqlType::timestamptz},
    Column{"ended_at", SqlType::timestamptz},
    Column{"outcome", SqlType::integer},
    Column{"error_kind", SqlType::text},
    Column{"error", SqlType::text},
};

/// The columns before those of `state_columns` when rows are read in order to be changed.
namespace read_head {
enum Column : int { payload_bytes, claim_bytes, in_run, end };
}  // namespace read_head

/// Given a time, tests decide; otherwise the database's clock does. `parameter` is "$1" or the
/// like.
[[nodiscard]] std::string now_sql(std::string_view parameter);

/// The statements of one queue that change something, or read in order to change.
struct QueueSql {
  struct Settings {
    bool flush_claims = true;
    std::size_t kept_attempts = defaults::kKeptAttempts;
  };

  /// `queue` is the word of a QueueKind.
  QueueSql(const Names& names, std::string_view queue, const Settings& settings);

  RunSql runs;

  // Intake
  Statement enqueue;  ///< kEnqueueColumns, now -> the ids of those that were new
  /// The same for a transaction that may be committed much later: claims find its messages also
  /// when they have come further by then.
  Statement enqueue_late;
  Statement know_priorities;  ///< smallint[]

  // Claims; see queue_claim_sql.cpp for their parameters
  Statement claim;
  Statement claim_topics;
  /// The queue, now -> the rules for topics as `sql::read_stored_rule` reads them, and now. Locks
  /// them.
  Statement lock_limits;
  Statement leased_topics;  ///< -> topic, how many are leased
  Statement spend_limit;    ///< the queue, pattern, is_exact, spent until
  Statement savepoint;
  Statement rollback_to_savepoint;

  // Deliveries by the numbers that this process knows of them
  /// ids, their owner, the least and the greatest of their deliveries, now -> id and delivery of
  /// those that were held and have no attempts. For more than one delivery the caller compares them
  /// with its own, and rolls back when they differ.
  Statement acknowledge;
  Statement acknowledge_tried;  ///< the same for all that were held
  Statement extend;  ///< keys, deliveries or null, owners, milliseconds, now -> key, new end

  // Rows that are read, decided upon, and written back
  Statement lock_partitions;  ///< bigint[], sorted -> the isolation level, for each
  Statement lock_keys;        ///< uuid[] -> the ids that are now locked
  Statement lock_ids;         ///< bigint[] -> those that nobody else had locked
  Statement read_keys;        ///< uuid[] -> `read_head`, then `state_columns`
  Statement read_digests;     ///< bigint[] -> id, SHA-256 of the payload
  Statement find;        ///< uuid[], now, bytes -> now, place, how many are there, `row_columns`
  Statement find_whole;  ///< the same with payloads
  Statement read_ids;
  Statement read_time;             ///< now -> now
  Statement read_time_and_number;  ///< now -> now, a number for ids
  Statement insert_messages;       ///< kMessageColumns
  Statement insert_work;           ///< kWorkColumns
  Statement update_work;           ///< kWorkColumns
  Statement update_messages;       ///< kContentColumns
  Statement finish_work;           ///< kDoneColumns: out of work, into done
  Statement touch_done;            ///< ids, times, duplicates
  Statement remove;                ///< bigint[]: messages that stand in no run
  Statement keep_attempts;         ///< kAttemptColumns
  Statement read_attempts;         ///< uuid[] -> key, then as `sql::read_attempt` reads them
  Statement past_totals;           ///< bigint[] -> id, how many are kept, their bytes
  Statement keep_contents;         ///< ids, versions, now, who, why: keeps what they have now
  Statement block_partitions;      ///< text[]
  Statement unblock_partitions;    ///< text[]
  Statement announce;              ///< channel, text

  // Upkeep
  Statement find_lapsed;    ///< now, not before, limit -> id, partition key
  Statement find_expired;   ///< now, limit -> id, partition key
  Statement clean_up_done;  ///< until, limit -> how many
  Statement clean_up_dead;  ///< until, limit -> how many
  Statement add_up_done;
  Statement see_worker;      ///< its name, now -> its number
  Statement newest;          ///< -> when the last message was first seen; no row when there is none
  Statement mend_work;       ///< now, limit -> how many; see `mend_times`
  Statement mend_runs;       ///< the same
  Statement forget_workers;  ///< now, milliseconds: those that hold nothing and were not seen since
};

/// The claims among them.
[[nodiscard]] std::string claim_sql(const Names& names, std::string_view queue,
                                    std::string_view topic_condition, bool flush_claims);

/// Whether a topic, a column or an expression, is among those of a selection whose parameters are
/// numbered from `first` on; see `add_selection`.
[[nodiscard]] std::string selection_sql(std::string_view topic, int first);

}  // namespace oncebox::postgresql
