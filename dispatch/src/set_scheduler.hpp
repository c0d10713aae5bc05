#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "admission.hpp"
#include "claim_hints.hpp"
#include "counters.hpp"
#include "fair_ready_queue.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/dispatch/store_selection.hpp"
#include "oncebox/engine/backoff.hpp"
#include "oncebox/engine/claim_cycle.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/observer.hpp"
#include "routes.hpp"
#include "store_lane.hpp"

namespace oncebox::dispatcher {

/// Something to do for a store at a time. Those that have been overtaken are passed over.
struct LaneTimer {
  enum class Kind { look, settle, keep };

  SteadyTime at;
  Kind kind;
  std::weak_ptr<StoreLane> lane;

  friend bool operator>(const LaneTimer& a, const LaneTimer& b) { return a.at > b.at; }
};

/// The stores on one database server, and the threads that call them: so many calls at a time. It
/// goes with the last of its stores. Guarded by the scheduler.
struct DatabaseServer {
  std::size_t lanes = 0;  ///< stores on it
  bool is_over = false;   ///< it has no more of them: the threads end
  std::deque<LanePtr> to_settle;
  std::deque<LanePtr> to_keep;
  std::priority_queue<LaneTimer, std::vector<LaneTimer>, std::greater<>> timers;
  std::size_t hungry = 0;         ///< stores that may have something to claim
  std::size_t troubled_jobs = 0;  ///< calls under way to stores whose last one failed
  bool has_timekeeper = false;    ///< one thread waits for the first timer, the others for work
  std::size_t idle = 0;           ///< threads that wait
  std::condition_variable work;
  std::size_t running = 0;  ///< threads that have not ended
  std::vector<std::jthread> threads;
};

/// Decides what the threads do for which store. Settlements go first, then leases, then claims.
/// Safe from any thread, but for `start` and `stop_threads`.
class SetScheduler final : public RoomHints,
                           public LaneEvents,
                           public StoreSetListener,
                           public std::enable_shared_from_this<SetScheduler> {
 public:
  struct Parts {
    const SetDispatcherOptions& options;
    Routes& routes;
    FairReadyQueue& ready;
    StoreSelection& selection;
    Counters& counters;
    Logger& logger;
    const ObserverOfStore& observer;
    const Clock& clock;
    /// False: it starts no threads, and its owner makes the calls, by `run_next`.
    bool has_threads = true;
  };

  explicit SetScheduler(const Parts& parts);
  ~SetScheduler() override;

  /// What is made with this, and used from `start` on.
  struct Handling {
    WorkerPool& workers;
    Admission& admission;
  };
  void start(const Handling& handling, StoreSet& stores);

  // For an owner that makes the calls itself, instead of `start` and `stop_threads`.

  void start_without_threads(const Handling& handling);
  /// Makes the call to a store of this database server that is the next to be made, as one of its
  /// threads; false when there is none now. So many at a time as the options have.
  bool run_next(const std::string& server);
  /// When the time alone may give `run_next` something to do for one of the servers.
  [[nodiscard]] SteadyTime next_change() const;
  [[nodiscard]] bool is_claiming() const;
  /// From now on a settlement that fails is given up, and what waits for a time is tried at once.
  void stop_repeating();

  /// Nothing more is claimed or reaped.
  void stop_claiming();
  /// Waits until nothing is in flight and no claim under way; false when the deadline passed first.
  bool wait_quiet_until(SteadyTime deadline);
  /// Messages in flight; a claim under way that may still bring some counts as one.
  [[nodiscard]] std::size_t in_flight() const;
  /// Records what is left, once for each store, and ends the threads. Workers have ended.
  void stop_threads();

  /// Looks for work in every store, and at every clock.
  void wake() noexcept;

  [[nodiscard]] bool is_own_thread(std::thread::id thread) const;

  void on_admitted(std::size_t bytes) noexcept override { bytes_held_.fetch_add(bytes); }
  void on_payload_freed(std::size_t bytes) noexcept override { bytes_held_.fetch_sub(bytes); }
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
  using Lock = std::unique_lock<std::mutex>;
  struct ByName {
    bool operator()(const LanePtr& a, const LanePtr& b) const {
      return a->name() != b->name() ? a->name() < b->name() : a->number() < b->number();
    }
  };
  /// What one claim of a store may bring; if nothing, how many have to leave the buffer before.
  struct LaneRoom {
    std::size_t messages = 0;
    std::size_t shortfall = 0;
  };
  /// Counts a call to a store that is in trouble.
  class TroubledJob {
   public:
    explicit TroubledJob(StoreLane& lane);
    ~TroubledJob();
    TroubledJob(const TroubledJob&) = delete;
    TroubledJob& operator=(const TroubledJob&) = delete;

   private:
    StoreLane& lane_;
    const bool counts_;
  };
  class Reservation;
  using ClaimCycle = engine::ClaimCycle;
  /// A claim to be made.
  struct Look {
    LanePtr lane;
    std::size_t messages = 0;
    std::size_t bytes = 0;
    ClaimCycle::Do what{};
    std::uint64_t eases = 0;
  };
  /// What it found.
  struct Found : ClaimCycle::Found {
    std::size_t messages = 0;
    std::optional<std::string> failure = {};
  };

  void run(DatabaseServer& server);
  /// Makes the next call; false when there is none now.
  bool run_next(DatabaseServer& server, Lock& lock);
  void wait_for_work(DatabaseServer& server, Lock& lock);
  void take_due_timers(DatabaseServer& server);
  void ring(const LaneTimer& timer);
  void add_timer(const LanePtr& lane, LaneTimer::Kind kind, SteadyTime at);

  /// Not one in trouble while as many of those are being called as may be.
  [[nodiscard]] bool may_call(const StoreLane& lane) const;
  /// Takes the first that may be called; null when there is none.
  LanePtr take_first(std::deque<LanePtr>& lanes) const;
  void settle(const LanePtr& lane, Lock& lock);
  void keep(const LanePtr& lane, Lock& lock);

  [[nodiscard]] std::optional<Look> choose(DatabaseServer& server);
  [[nodiscard]] LaneRoom room_for(const StoreLane& lane, std::size_t places) const;
  [[nodiscard]] std::size_t bytes_of_claim() const;
  void look(const Look& look, Lock& lock);
  Found claim(const Look& look);
  void claim(const Look& look, const ClaimPlan& plan, Found& found);
  void conclude(const Look& look, const Found& found);
  void rest(const LanePtr& lane, const std::string& failure);

  /// Does what the cycle of the lane says: it is hungry, or looks at a time.
  void plan_look(const LanePtr& lane);
  void make_hungry(const LanePtr& lane);
  void satisfy(const LanePtr& lane);
  void look_at(const LanePtr& lane, SteadyTime at);
  void wake_claims();
  void settle_soon(const LanePtr& lane);

  void add_lane(const MemberStorePtr& member);
  LanePtr make_lane(const MemberStorePtr& member);
  DatabaseServer& server_of(const MemberStorePtr& member);
  void start_threads(DatabaseServer& server);
  /// One store less is on this server.
  void leave(DatabaseServer& server);
  /// Because of the exception that is being handled.
  void log_put_off(const MemberStore& member) const noexcept;

  /// What the caretaker does: joins the threads of servers that are over, and tries again what
  /// could not be worked on.
  void care();
  void bury(Lock& lock);
  void try_put_off();
  /// Takes out of the buffer what came from this store.
  std::vector<InFlight*> take_waiting(const LanePtr& lane);
  /// Lets a store that has left the set go when nothing is left to do for it.
  void drop_if_finished(const LanePtr& lane);
  [[nodiscard]] std::size_t in_flight_locked() const;
  [[nodiscard]] bool is_claiming_locked() const;

  const Parts parts_;
  const std::size_t most_troubled_;  // calls at a time to stores that fail, on one server
  WorkerPool* workers_ = nullptr;
  Admission* admission_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable quiet_;
  std::map<std::string, std::unique_ptr<DatabaseServer>> servers_;
  std::multimap<std::string, std::unique_ptr<DatabaseServer>> departed_;  // until all threads ended
  std::map<std::uint64_t, LanePtr> lanes_;                                // by their numbers
  std::uint64_t last_number_ = 0;
  std::set<LanePtr, ByName> hungry_;
  bool any_waits_for_limits_ = false;
  std::uint64_t eases_ = 0;  // of limits
  bool is_started_ = false;  // all stores that were there are known
  bool is_stopping_ = false;
  bool threads_end_ = false;
  bool limited_first_ = false;

  std::condition_variable care_;
  std::vector<MemberStorePtr> put_off_;  // stores that could not be worked on
  engine::Backoff put_off_pause_;
  SteadyTime put_off_until_{};
  std::jthread caretaker_;

  std::mutex planning_mutex_;   // a plan and its reservation are one step
  std::mutex selection_mutex_;  // guards the selection, with or without `mutex_`
  std::atomic<std::size_t> bytes_held_ = 0;
  std::atomic<bool> wants_room_ = false;
  std::atomic<std::size_t> wake_at_size_ = 0;  // of the buffer, when room is wanted
};

}  // namespace oncebox::dispatcher
