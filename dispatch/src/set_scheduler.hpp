#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "admission.hpp"
#include "claim_hints.hpp"
#include "counters.hpp"
#include "dead_handlers.hpp"
#include "fair_ready_queue.hpp"
#include "idle_watch.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/dispatch/store_selection.hpp"
#include "oncebox/engine/claim_cycle.hpp"
#include "oncebox/engine/store_calls.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/observer.hpp"
#include "routes.hpp"
#include "store_lane.hpp"

namespace oncebox::dispatcher {

/// Decides what is done for the stores of a set, and which of them is claimed from next; a
/// `StoreCalls` makes the calls. Safe from any thread, but for `start` and `stop`.
///
/// **Locks.** The `StoreCalls` ask for the next claim under their lock, and `mutex_` is taken
/// within it. So nothing calls them while it holds `mutex_`.
class SetScheduler final : public RoomHints,
                           public WorkReport,
                           public LaneEvents,
                           public StoreSetListener,
                           public std::enable_shared_from_this<SetScheduler>,
                           private engine::StoreCalls::Chooser {
 public:
  struct Parts {
    const SetDispatcherOptions& options;
    Routes& routes;
    FairReadyQueue& ready;
    StoreSelection& selection;
    Counters& counters;
    IdleWatch& idle;
    const DeadHandlers& dead_handlers;
    Logger& logger;
    const ObserverOfStore& observer;
    const Clock& clock;
    Tracer* tracer;  ///< null: nobody
    /// False: its owner makes the calls, by `run_next`.
    bool has_threads = true;
  };

  explicit SetScheduler(const Parts& parts);
  ~SetScheduler() override;

  /// What is made with this, and used from `start` on.
  struct Handling {
    WorkerPool& workers;
    Admission& admission;
  };
  void start(const Handling& handling, StoreSource& stores);

  // For an owner that tells which stores there are, and makes the calls itself.

  void start_without_set(const Handling& handling);
  /// Makes the next call to a store; false when there is none now.
  bool run_next() { return calls_.run_next(); }
  /// When the time alone may give `run_next` something to do.
  [[nodiscard]] SteadyTime next_change() const { return calls_.next_change(); }
  [[nodiscard]] bool is_claiming() const;
  /// From now on a settlement that fails is given up, and what waits for a time is tried at once.
  void stop_repeating();

  /// Nothing more is claimed or reaped.
  void stop_claiming();
  /// Waits until nothing is in flight and no claim under way; false when the deadline passed first.
  bool wait_quiet_until(SteadyTime deadline);
  /// Messages in flight; a claim under way that may still bring some counts as one.
  [[nodiscard]] std::size_t in_flight() const override;
  [[nodiscard]] std::uint64_t admitted() const override { return admitted_.load(); }
  std::uint64_t ask_to_look() override;
  [[nodiscard]] bool has_found_nothing(std::uint64_t look, Duration due_within) const override;
  /// Records what is left, once for each store, and ends the threads. Workers have ended.
  void stop();

  /// Looks for work in every store, and at every clock.
  void wake() noexcept;

  /// Whether the thread that asks makes calls to stores.
  [[nodiscard]] bool is_own_thread() const { return calls_.is_own_thread(); }

  void on_admitted(Origin& origin, std::size_t bytes) noexcept override {
    admitted_.fetch_add(1);
    origin.bytes.fetch_add(bytes);
    bytes_held_.fetch_add(bytes);
  }
  void on_payload_freed(Origin& origin, std::size_t bytes) noexcept override {
    origin.bytes.fetch_sub(bytes);
    bytes_held_.fetch_sub(bytes);
  }
  void on_room() noexcept override;
  void on_idle() noexcept override {}
  void on_limit_eased() noexcept override;

  void on_verdicts(StoreLane& lane) noexcept override;
  void on_work(StoreLane& lane) noexcept override;
  /// The same, of a lane that may be gone.
  void on_news_of(std::uint64_t lane) noexcept;
  void on_due(StoreLane& lane, TimePoint time) noexcept override;

  void on_opened(const MemberStorePtr& member) noexcept override;
  void on_removed(const MemberStorePtr& member) noexcept override;

 private:
  using ClaimCycle = engine::ClaimCycle;
  using StoreCalls = engine::StoreCalls;
  using CallEnded = engine::CallEnded;
  using CallKind = engine::CallKind;

  /// What one claim of a store may bring; if nothing, how many have to leave the buffer before.
  struct LaneRoom {
    std::size_t messages = 0;
    std::size_t bytes = 0;
    std::size_t shortfall = 0;
  };
  struct Candidate {
    StoreLane* lane;
    LaneRoom room;
  };
  /// When a lane is to look for work, to be told to its calls.
  struct Plan {
    std::shared_ptr<const StoreCalls::Lane> calls;
    SteadyTime look_at = SteadyTime::max();
  };
  class Reservation;
  /// What a claim found.
  struct Found : ClaimCycle::Found {
    std::size_t messages = 0;
    std::size_t bytes = 0;
    bool has_asked = false;  ///< when something is due
    bool has_failed = false;
    std::string failure = {};  ///< why
  };
  /// A thread of the set tells of a store. `stop` waits for it.
  class Hearing;

  // Stores that come and go.

  void add_lane(const MemberStorePtr& member);
  LanePtr make_lane(const MemberStorePtr& member);
  /// Because of the exception that is being handled.
  void log_put_off(const MemberStore& member) const noexcept;
  CallEnded try_put_off();
  /// Takes out of the buffer what came from this store.
  std::vector<InFlight*> take_waiting(const StoreLane& lane);
  /// Lets a store that has left the set go when nothing is left to do for it.
  void drop_if_finished(const StoreLane& lane) ONCEBOX_EXCLUDES(mutex_);

  // The calls, on a thread of `calls_`.

  CallEnded run(const std::weak_ptr<StoreLane>& weak, CallKind kind);
  CallEnded settle(StoreLane& lane) const;
  [[nodiscard]] static CallEnded keep(StoreLane& lane);
  CallEnded look(StoreLane& lane);
  [[nodiscard]] ClaimCycle::Step begin_claim(StoreLane& lane) ONCEBOX_EXCLUDES(mutex_);
  Found claim(StoreLane& lane, ClaimCycle::Do what);
  void claim(StoreLane& lane, const ClaimPlan& plan, Found& found);
  CallEnded end_claim(StoreLane& lane, const Found& found) ONCEBOX_EXCLUDES(mutex_);
  void give_back_if_removed(const StoreLane& lane) ONCEBOX_EXCLUDES(mutex_);

  // Which store is claimed from next.

  const StoreCalls::Lane* choose(const StoreCalls::Candidates& candidates) noexcept override;
  StoreLane* choose_lane(const StoreCalls::Candidates& candidates) ONCEBOX_REQUIRES(mutex_);
  /// The first that may be claimed from; needs no memory.
  StoreLane* first_lane(const StoreCalls::Candidates& candidates) ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] std::size_t free_places() const;
  void prepare_claim(StoreLane& lane, const LaneRoom& room) const ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] LaneRoom room_for(const StoreLane& lane, std::size_t places) const
      ONCEBOX_REQUIRES(mutex_, selection_mutex_);
  [[nodiscard]] StoreSelection& selection() const ONCEBOX_REQUIRES(selection_mutex_) {
    return parts_.selection;
  }
  [[nodiscard]] std::size_t bytes_for(const StoreLane& lane) const ONCEBOX_REQUIRES(mutex_);
  void make_hungry(std::uint64_t lane) noexcept ONCEBOX_EXCLUDES(mutex_);
  void satisfy(StoreLane& lane) noexcept ONCEBOX_REQUIRES(mutex_);

  [[nodiscard]] Plan plan(const StoreLane& lane) const ONCEBOX_REQUIRES(mutex_);
  static void follow(const Plan& plan) noexcept;
  /// Changes the cycle of a lane, and does what follows.
  template <class Change>
  void change(std::uint64_t lane, Change apply) noexcept ONCEBOX_EXCLUDES(mutex_);
  /// The same for each lane, and `then` outside of the lock. Only the calls of a lane are held
  /// there, never the lane: a thread that tells of something must not be the one that closes a
  /// store.
  template <class Change, class Then>
  void change_all(Change apply, Then then) noexcept ONCEBOX_EXCLUDES(mutex_);

  [[nodiscard]] std::size_t count_in_flight() const ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] bool is_any_claiming() const ONCEBOX_REQUIRES(mutex_);

  const Parts parts_;
  WorkerPool* workers_ = nullptr;
  Admission* admission_ = nullptr;

  mutable detail::Mutex mutex_;
  detail::TimedCondition quiet_;
  std::map<std::uint64_t, LanePtr> lanes_ ONCEBOX_GUARDED_BY(mutex_);       // by their numbers
  std::map<std::string, std::size_t> lanes_on_ ONCEBOX_GUARDED_BY(mutex_);  // each server
  HungryLanes hungry_ ONCEBOX_GUARDED_BY(mutex_);
  std::vector<StoreCandidate> candidates_ ONCEBOX_GUARDED_BY(mutex_);  // for `choose`, as the next
  std::vector<Candidate> candidate_lanes_ ONCEBOX_GUARDED_BY(mutex_);
  bool any_waits_for_limits_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::uint64_t eases_ ONCEBOX_GUARDED_BY(mutex_) = 0;  // of limits
  bool is_started_ ONCEBOX_GUARDED_BY(mutex_) = false;  // all stores that were there are known
  bool is_stopping_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::uint64_t looks_asked_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::size_t hearings_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::vector<MemberStorePtr> without_lane_ ONCEBOX_GUARDED_BY(mutex_);  // and in the set
  detail::Backoff put_off_pause_ ONCEBOX_GUARDED_BY(mutex_);

  detail::Mutex making_mutex_;    // a user's function makes observers, on one thread at a time
  detail::Mutex planning_mutex_;  // a plan and its reservation are one step
  bool limited_first_ ONCEBOX_GUARDED_BY(planning_mutex_) = false;
  detail::Mutex selection_mutex_;  // taken after `mutex_`, or without it
  std::atomic<std::uint64_t> last_number_ = 0;
  std::atomic<std::uint64_t> admitted_ = 0;
  std::atomic<std::size_t> bytes_held_ = 0;
  std::atomic<bool> wants_room_ = false;
  std::atomic<std::size_t> wake_at_size_ = 0;  // of the buffer, when room is wanted

  StoreCalls calls_;                      // made last, so that its threads end before the rest
  const StoreCalls::Lane put_off_calls_;  // try again what was put off
};

}  // namespace oncebox::dispatcher
