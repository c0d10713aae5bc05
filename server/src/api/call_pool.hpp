#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "http/answers.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/engine/store_calls.hpp"

namespace oncebox::server {

/// The threads that wait for stores, so that those of the sockets never do. Every call but the
/// destructor is safe from any thread.
///
/// **Lanes.** Calls about one store stand in its `CallLane`, and begin in the order in which they
/// came; lanes take turns. Each database server has a budget of its own of calls that run at the
/// same time, so one that hangs holds up itself. A part of the budget is kept for stores of that
/// server which have no call under way. Likewise a quarter of the places of those that wait is kept
/// for lanes where nobody does.
///
/// **Threads.** They start when they are needed and end when they have rested, but for one. All
/// servers together have at most `threads_at_most`, the last quarter of which is kept for servers
/// that have no call under way. See `engine::CallPlan`.
class CallPool {
 public:
  /// `threads` is the budget of a server. A thread that had nothing to do for `rest` ends. The
  /// clock is borrowed.
  CallPool(std::size_t threads, std::size_t max_queued, Duration rest = std::chrono::seconds{10},
           const Clock& clock = SystemClock::shared());
  CallPool(const CallPool&) = delete;
  CallPool& operator=(const CallPool&) = delete;
  /// Stops, as `stop` does.
  ~CallPool();

  // Calls about no store in particular, in a lane of their own. See `CallLane`.

  template <std::invocable Call>
  void submit(Call call) {
    push(own_lane_, std::move(call), Bound::max_queued);
  }
  template <std::invocable Call>
  void submit_own(Call call) {
    push(own_lane_, std::move(call), Bound::none);
  }
  template <std::invocable<const Request&> Make>
  void answer(const ExchangePtr& exchange, Make make) {
    answer(own_lane_, exchange, std::move(make));
  }

  /// Refuses further calls, runs those that wait, and returns then. Must not be called by a call.
  void stop() { calls_.stop(); }
  /// Refuses further calls and drops those that wait: nobody is there any more to be answered.
  void discard() { calls_.drop(); }

  /// How many there may be in all.
  [[nodiscard]] std::size_t threads_at_most() const noexcept { return threads_at_most_; }
  /// How many there are now.
  [[nodiscard]] std::size_t threads() const { return calls_.threads(); }

 private:
  friend class CallLane;

  enum class Bound { max_queued, none };
  static constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();
  using Count = std::atomic<std::size_t>;

  struct Lane {
    engine::StoreCalls::Lane calls;
    std::shared_ptr<Count> queued;  ///< calls of clients that have not begun
  };

  /// A client's call that waits: it counts until it begins, or is dropped.
  class Place {
   public:
    Place() = default;
    Place(CallPool& pool, std::shared_ptr<Count> in_lane) noexcept
        : pool_(&pool), in_lane_(std::move(in_lane)) {}
    ~Place() { leave(); }
    Place(Place&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), in_lane_(std::move(other.in_lane_)) {}
    Place& operator=(Place&&) = delete;

    void leave() noexcept;

   private:
    CallPool* pool_ = nullptr;
    std::shared_ptr<Count> in_lane_;
  };

  template <class Function>
  class Queued final : public engine::StoreCalls::Call {
   public:
    Queued(Function call, Place place) : call_(std::move(call)), place_(std::move(place)) {}
    void run() noexcept override {
      place_.leave();
      call_();
    }

   private:
    Function call_;
    Place place_;
  };

  [[nodiscard]] Lane make_lane(const std::string& server, std::size_t width = kAnyWidth);
  [[nodiscard]] engine::StoreCalls::Lane make_task(const std::string& server,
                                                   std::function<void()> run);
  /// Throws `overloaded`.
  [[nodiscard]] Place take_place(const Lane& lane);
  /// Throws `unavailable` after a stop.
  static void post(const Lane& lane, std::unique_ptr<engine::StoreCalls::Call> call, Bound bound);

  template <class Call>
  void push(const Lane& lane, Call call, Bound bound) {
    Place place = bound == Bound::max_queued ? take_place(lane) : Place();
    post(lane, std::make_unique<Queued<Call>>(std::move(call), std::move(place)), bound);
  }
  template <class Make>
  void answer(const Lane& lane, const ExchangePtr& exchange, Make make) {
    auto call = [exchange, make = std::move(make)]() mutable {
      server::answer(*exchange, [&] { return make(exchange->request()); });
    };
    push(lane, std::move(call), Bound::max_queued);
  }

  const std::size_t threads_at_most_;
  const std::size_t max_queued_;
  Count queued_ = 0;  // calls of clients, in all lanes
  engine::StoreCalls calls_;
  const Lane own_lane_;
};

/// The calls about one store. Borrows the pool. Safe from any thread.
class CallLane {
 public:
  /// `server` stands for the database server that the store lives on. So many calls of the lane run
  /// at the same time, at most.
  CallLane(CallPool& pool, std::string server, std::size_t width = CallPool::kAnyWidth)
      : pool_(pool), server_(std::move(server)), lane_(pool.make_lane(server_, width)) {}

  /// Runs `call()`, which must not throw. Throws `overloaded` when too many wait already, and
  /// `unavailable` after the pool has stopped.
  template <std::invocable Call>
  void submit(Call call) {
    pool_.push(lane_, std::move(call), CallPool::Bound::max_queued);
  }

  /// The same for work of the server's own, of which there is never more than a little: it is not
  /// refused when clients ask for too much. Dropped after the pool has stopped.
  template <std::invocable Call>
  void submit_own(Call call) {
    pool_.push(lane_, std::move(call), CallPool::Bound::none);
  }

  /// Work of the server's own that comes again and again, one at a time, when `want` or `want_at`
  /// asks for it; they need no memory. When `run` throws it comes again a second later.
  [[nodiscard]] engine::StoreCalls::Lane add_task(std::function<void()> run) {
    return pool_.make_task(server_, std::move(run));
  }

  /// Sends what `make(const Request&)` returns, or the problem that it throws.
  template <std::invocable<const Request&> Make>
  void answer(const ExchangePtr& exchange, Make make) {
    pool_.answer(lane_, exchange, std::move(make));
  }

 private:
  CallPool& pool_;
  const std::string server_;
  CallPool::Lane lane_;
};

}  // namespace oncebox::server
