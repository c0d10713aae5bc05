#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "claim_hints.hpp"
#include "counters.hpp"
#include "dead_handlers.hpp"
#include "in_flight.hpp"
#include "lease_keeper.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/driver/observed_queue_store.hpp"
#include "oncebox/driver/work_listener.hpp"
#include "oncebox/engine/claim_cycle.hpp"
#include "oncebox/engine/store_calls.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/tracing.hpp"
#include "ready_messages.hpp"
#include "settler.hpp"
#include "worker_pool.hpp"

namespace oncebox::dispatcher {

class StoreLane;

/// In the order of their names.
struct LanesByName {
  bool operator()(const StoreLane* a, const StoreLane* b) const;
};
using HungryLanes = std::set<StoreLane*, LanesByName>;

/// Who is told what there is to do for a store. Any thread calls.
class LaneEvents {
 public:
  virtual ~LaneEvents() = default;
  virtual void on_verdicts(StoreLane& lane) noexcept = 0;
  virtual void on_work(StoreLane& lane) noexcept = 0;
  virtual void on_due(StoreLane& lane, TimePoint time) noexcept = 0;
};

/// Where a store of a set stands in the work of the dispatcher: guarded by its scheduler.
struct LaneState {
  bool is_removed = false;   ///< from the set: it is only finished with
  bool is_claiming = false;  ///< by some thread, now

  // Of the claim that was chosen last.
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::uint64_t eases = 0;  ///< of limits, before it
  std::uint64_t look = 0;   ///< the last one that was asked for before it

  // For threads that wait until there is nothing to do.
  std::uint64_t found_nothing = 0;  ///< the last look that found nothing at all
  TimePoint due = kMaxTime;         ///< when there will be something
};

/// One store of a set, with what is in flight of it.
class StoreLane final : public WorkHints {
 public:
  struct Parts {
    ReadyMessages& ready;
    RoomHints& room;
    WorkerPool& workers;
    Counters& counters;
    const DeadHandlers& dead_handlers;
    Logger& logger;
    const Clock& clock;
    Tracer* tracer;
    const DispatcherOptions& options;
    Duration notified_poll_interval;
    std::size_t capacity;  ///< messages in flight
    QueueKind queue = QueueKind::inbox;
  };

  /// `number` stands for it where it may be gone already, and orders lanes the same way every time.
  StoreLane(std::uint64_t number, MemberStorePtr member, Observer& observer, const Parts& parts,
            LaneEvents& events);
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  [[nodiscard]] const std::string& name() const noexcept { return member_->name(); }
  [[nodiscard]] const MemberStorePtr& member() const noexcept { return member_; }
  [[nodiscard]] QueueStore& store() noexcept { return store_; }
  [[nodiscard]] InFlightTable& table() noexcept { return table_; }
  [[nodiscard]] const InFlightTable& table() const noexcept { return table_; }
  [[nodiscard]] Settler& settler() noexcept { return settler_; }
  [[nodiscard]] LeaseKeeper& keeper() noexcept { return keeper_; }
  [[nodiscard]] Origin& origin() noexcept { return origin_; }
  [[nodiscard]] const Origin& origin() const noexcept { return origin_; }

  void on_due(TimePoint time) noexcept override { events_.on_due(*this, time); }
  void on_claimable() noexcept override { events_.on_work(*this); }

  /// A claim is wanted, or under way.
  [[nodiscard]] bool is_hungry() const noexcept { return hungry_entry.empty(); }

  LaneState state;
  engine::ClaimCycle cycle;                               ///< guarded by the scheduler, too
  std::shared_ptr<const engine::StoreCalls::Lane> calls;  ///< may outlive this
  HungryLanes::node_type hungry_entry;                    ///< while it is not hungry
  std::shared_ptr<WorkListener> listener;
  bool listens = false;                                     ///< known to the thread that claims
  std::atomic<SteadyTime> settle_at = SteadyTime{};         ///< not before
  std::atomic<SteadyTime> gives_up_at = SteadyTime::max();  ///< when it is removed, and fails

 private:
  const std::uint64_t number_;
  const MemberStorePtr member_;
  LaneEvents& events_;
  ObservedQueueStore store_;
  InFlightTable table_;
  Settler settler_;
  Origin origin_;
  LeaseKeeper keeper_;
};

using LanePtr = std::shared_ptr<StoreLane>;

}  // namespace oncebox::dispatcher
