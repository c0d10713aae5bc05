#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "api/fair_places.hpp"
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
/// server which have no call under way.
///
/// **Places.** Only so many calls of clients may wait, in all lanes together. Each caller has a
/// share of these places (`FairPlaces`), and a third of them is kept for lanes in which no call
/// waits. So one caller gets a third of the places for one store.
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
  void submit(const Request& request, Call call) {
    push(own_lane_, std::move(call), take_place(own_lane_, request));
  }
  template <std::invocable Call>
  void submit_own(Call call) {
    push(own_lane_, std::move(call), {});
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

  static constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();
  using Count = std::atomic<std::size_t>;

  struct Lane {
    engine::StoreCalls::Lane calls;
    std::shared_ptr<Count> queued;  ///< calls of clients that have not begun
  };

  /// A client's call that waits: it counts until it begins, or is dropped. Or a call of the
  /// server's own, which counts nowhere.
  class Place {
   public:
    Place() = default;
    Place(FairPlaces::Place place, std::shared_ptr<Count> in_lane) noexcept
        : place_(std::move(place)), in_lane_(std::move(in_lane)) {
      ++*in_lane_;
    }
    ~Place() { leave(); }
    Place(Place&& other) noexcept = default;
    Place& operator=(Place&&) = delete;

    [[nodiscard]] bool is_of_client() const noexcept { return place_.is_taken(); }
    void leave() noexcept;

   private:
    FairPlaces::Place place_;
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
  [[nodiscard]] Place take_place(const Lane& lane, const Request& request);
  /// Throws `unavailable`.
  [[noreturn]] static void refuse_after_stop();

  template <class Call>
  void push(const Lane& lane, Call call, Place place) {
    const bool is_of_client = place.is_of_client();
    auto queued = std::make_unique<Queued<Call>>(std::move(call), std::move(place));
    if (!lane.calls.post(std::move(queued)) && is_of_client) refuse_after_stop();
  }
  template <class Make>
  void answer(const Lane& lane, const ExchangePtr& exchange, Make make) {
    auto call = [exchange, make = std::move(make)]() mutable {
      server::answer(*exchange, [&] { return make(exchange->request()); });
    };
    push(lane, std::move(call), take_place(lane, exchange->request()));
  }

  const std::size_t threads_at_most_;
  const std::size_t kept_places_;
  FairPlaces places_;  // of calls of clients, in all lanes
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

  /// Runs `call()`, which must not throw, for a client with this request. Throws `overloaded` when
  /// too many wait already, and `unavailable` after the pool has stopped.
  template <std::invocable Call>
  void submit(const Request& request, Call call) {
    pool_.push(lane_, std::move(call), pool_.take_place(lane_, request));
  }

  /// The same for work of the server's own, of which there is never more than a little: it is not
  /// refused when clients ask for too much. Dropped after the pool has stopped.
  template <std::invocable Call>
  void submit_own(Call call) {
    pool_.push(lane_, std::move(call), {});
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
