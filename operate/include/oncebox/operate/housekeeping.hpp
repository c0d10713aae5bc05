#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/store.hpp"
#include "oncebox/surroundings_of_queues.hpp"

namespace oncebox {

struct HousekeepingOptions {
  Duration reap_interval = defaults::kReapInterval;
  Duration cleanup_interval = defaults::kCleanupInterval;
  Duration done_retention = defaults::kRetention;  ///< counted from when it became done
  std::optional<Duration> dead_retention = {};     ///< nothing: dead messages are kept
  Duration audit_retention = defaults::kAuditRetention;
  /// Removed, or reaped, in one transaction at most: messages, keys, entries. They begin with 100
  /// and grow while they are quick.
  std::size_t batch = 1'000;
  /// A transaction that takes longer makes the next ones of its kind smaller: others may have to
  /// wait for it. They grow again when they take less than half of it.
  Duration batch_time{20};
  /// Calls at the same time, not counting those that hang; threads start when they are needed.
  std::size_t threads = 4;
};

/// A queue to be kept clean.
struct HousekeptQueue {
  QueueStore& queue;
  QueueOperator& operations;
};

/// A store to be kept clean. All of it is borrowed until the store is removed and `keep_alive` let
/// go.
struct HousekeptStore {
  std::string name;
  std::string server = {};  ///< the database server that it lives on; empty: one of its own
  HousekeptQueue inbox;
  HousekeptQueue outbox;
  HousekeptQueue deliveries;
  IdempotencyStore& keys;
  AuditTrail& audit;
  std::shared_ptr<void> keep_alive = {};
};

/// What was done for a queue so far.
struct QueueHousekeeping {
  std::uint64_t released = 0;  ///< lapsed leases
  std::uint64_t buried = 0;    ///< messages that expired or were delivered too often
  std::uint64_t done_removed = 0;
  std::uint64_t dead_removed = 0;

  friend bool operator==(const QueueHousekeeping&, const QueueHousekeeping&) = default;
};

/// What was done for a store since it was added.
struct StoreHousekeeping {
  std::string store;
  QueueHousekeeping inbox = {};
  QueueHousekeeping outbox = {};
  QueueHousekeeping deliveries = {};
  std::uint64_t keys_removed = 0;
  std::uint64_t audit_removed = 0;              ///< entries of the audit trail
  std::uint64_t failures = 0;                   ///< calls that failed
  std::optional<TimePoint> last_run = {};       ///< when a call last succeeded
  std::optional<TimePoint> failing_since = {};  ///< nothing: the last call succeeded
  /// Since when every call of a kind left more to do; nothing: of no kind did the last one.
  std::optional<TimePoint> behind_since = {};

  /// For an hour, which means that more comes than is removed.
  [[nodiscard]] bool is_behind(TimePoint now) const noexcept {
    return behind_since && now - *behind_since >= std::chrono::hours{1};
  }
};

/// Keeps any number of stores clean: ends lapsed leases, and removes what is past its retention:
/// done messages and dead ones if they have a retention, from every queue, idempotency keys, and
/// entries of the audit trail.
/// Nothing else is ever removed.
///
/// **Pacing.** In batches that are as large as can be done quickly; after one that left more to
/// remove, the store rests for four times its length. A store for which that is not enough is
/// logged after an hour, see `behind_since`. A store where nothing was found is asked half
/// as often each time, down to a quarter: who claims takes lapsed leases over anyway. The first
/// looks at many stores are spread over the interval.
///
/// **Failures.** One call at a time runs on a store. Those on database servers of which the last
/// call failed, or hangs (for five seconds), have at most half as many calls under way as there are
/// threads, beside those of the others: a server that hangs holds up others for these seconds at
/// most. One that fails is logged, and tried again after a second, then ever more rarely, up to
/// five minutes.
///
/// **Threads.** Every call but the destructor may be made from any thread at any time.
class Housekeeping {
 public:
  /// The observers hear of the stores that it follows. Throws `out_of_range` for an option that
  /// makes no sense.
  explicit Housekeeping(const HousekeepingOptions& options = {},
                        const SurroundingsOfQueues& surroundings = {});
  /// Stops, as `stop` does.
  ~Housekeeping();
  Housekeeping(const Housekeeping&) = delete;
  Housekeeping& operator=(const Housekeeping&) = delete;

  /// Throws `invalid_argument` when a store of this name is there.
  void add(HousekeptStore store);
  /// No call on it begins any more; one that runs is not waited for, and lets `keep_alive` go at
  /// its end. A name that is not there is ignored.
  void remove(std::string_view name);

  /// Keeps every store of the set, as they come and go, for as long as this object lives. What it
  /// buries is logged and told to the observers; a store that is added by itself has queues that
  /// tell of it, or do not.
  void follow(StoreSet& stores);

  /// Waits for the calls that run; none begins any more.
  void stop();

  /// By name.
  [[nodiscard]] std::vector<StoreHousekeeping> figures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox
