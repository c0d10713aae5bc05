#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "connection.hpp"
#include "names.hpp"
#include "row_arrays.hpp"

namespace oncebox::postgresql {

/// How many messages a run may stand for; as many numbers has a delivery of one.
inline constexpr std::int64_t kMaxRunLength = 64;

/// What is sent of each message of a call in which all are new; no priority means 0.
inline constexpr std::array kArrivalColumns{
    Column{"place", SqlType::bigint},       Column{"key", SqlType::uuid},
    Column{"source", SqlType::text},        Column{"message_id", SqlType::text},
    Column{"topic", SqlType::text},         Column{"payload", SqlType::bytea},
    Column{"headers", SqlType::text},       Column{"hash_algorithm", SqlType::text},
    Column{"hash", SqlType::bytea},         Column{"priority", SqlType::smallint},
    Column{"due_at", SqlType::timestamptz}, Column{"expires_at", SqlType::timestamptz},
};
/// The runs of such a call.
inline constexpr std::array kArrivingRunColumns{
    Column{"first_place", SqlType::bigint},   Column{"last_place", SqlType::bigint},
    Column{"priority", SqlType::smallint},    Column{"topic", SqlType::text},
    Column{"payload_bytes", SqlType::bigint},
};
/// The messages of such a call that stand in no run.
inline constexpr std::array kArrivingSingleColumns{
    Column{"place", SqlType::bigint},
    Column{"priority", SqlType::smallint},
    Column{"topic", SqlType::text},
    Column{"due_at", SqlType::timestamptz},
    Column{"expires_at", SqlType::timestamptz},
    Column{"payload_bytes", SqlType::integer},
};

/// The runs that an acknowledgement is about, as this process knows them.
inline constexpr std::array kHeldRunColumns{
    Column{"first_id", SqlType::bigint},
    Column{"last_id", SqlType::bigint},
    Column{"delivery", SqlType::bigint},
};
/// What stays leased of them.
inline constexpr std::array kLeasedRangeColumns{
    Column{"first_id", SqlType::bigint},
    Column{"last_id", SqlType::bigint},
    Column{"delivery", SqlType::bigint},
    Column{"seen_at", SqlType::timestamptz},
    Column{"locked_until", SqlType::timestamptz},
    Column{"priority", SqlType::smallint},
    Column{"topic", SqlType::text},
    Column{"leased_at", SqlType::timestamptz},
    Column{"worker", SqlType::integer},
};
/// What of them is done.
inline constexpr std::array kDoneRangeColumns{
    Column{"first_id", SqlType::bigint},
    Column{"last_id", SqlType::bigint},
    Column{"seen_at", SqlType::timestamptz},
    Column{"topic", SqlType::text},
};

/// The statements about runs: messages with consecutive ids that came in one call with the same
/// topic and priority and have shared their fate since. A row stands for all of them, so a batch
/// costs little more than storing what was sent.
struct RunSql {
  /// `queue` is the word of a QueueKind.
  RunSql(const Names& names, std::string_view queue);

  /// kArrivalColumns, kArrivingRunColumns, kArrivingSingleColumns, now -> a row. Does nothing, and
  /// answers none, unless all messages are new.
  Statement arrive;
  /// kArrivalColumns, kArrivingRunColumns, now, the owner, milliseconds, the worker, the version of
  /// the rules for topics -> for each run the first id, its delivery, now and the end of the lease.
  /// The same for messages that are leased at once; does nothing, either, when the rules have
  /// changed.
  Statement arrive_leased;
  /// The same for one message: key, source, id, topic, payload, headers, hash algorithm, hash,
  /// priority, now, the owner, milliseconds, the worker, the version.
  Statement arrive_alone_leased;
  /// uuid[]: gives these messages rows of their own in work or done, if they stand in runs.
  Statement take_out;
  Statement take_out_done;
  /// The first id and owner of a leased run: gives each of its messages a row of its own. Is not
  /// flushed: nothing but where states are written changes.
  Statement split;
  Statement lock;  ///< the first ids of runs: in the order in which everybody locks them
  /// kHeldRunColumns, kLeasedRangeColumns, kDoneRangeColumns, the owner, now -> how many runs there
  /// were. Changes nothing unless all of them are held like that.
  Statement acknowledge;
  /// now, not before, limit: gives the messages of lapsed runs rows of their own, at least so many
  /// if there are.
  Statement take_out_lapsed;
  Statement any_in_run;  ///< uuid[] -> whether one of these messages stands in a run, not done
  /// First and last id, for how long: waits until no other call is claiming from the run, and locks
  /// what is left of it.
  Statement wait_for_run;
  Statement clean_up;  ///< now, milliseconds, limit -> how many
};

/// What a message's life has made of it, for the message `m` of a query: a lateral subquery with
/// the columns of the view `state` and `in_run`.
[[nodiscard]] std::string state_of_message();

}  // namespace oncebox::postgresql
