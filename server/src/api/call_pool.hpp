#pragma once

#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "http/answers.hpp"

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
/// that have no call under way.
class CallPool {
 public:
  /// `threads` is the budget of a server. A thread that had nothing to do for `rest` ends.
  CallPool(std::size_t threads, std::size_t max_queued,
           std::chrono::milliseconds rest = std::chrono::seconds{10});
  /// Stops, as `stop` does.
  ~CallPool();
  CallPool(const CallPool&) = delete;
  CallPool& operator=(const CallPool&) = delete;

  // Calls about no store in particular, in a lane of their own. See `CallLane`.

  template <std::invocable Call>
  void submit(Call call);
  template <std::invocable Call>
  void submit_own(Call call);
  template <std::invocable<const Request&> Make>
  void answer(const ExchangePtr& exchange, Make make);

  /// Refuses further calls, runs those that wait, and returns then. Must not be called by a call.
  void stop();
  /// Refuses further calls and drops those that wait: nobody is there any more to be answered.
  void discard();

  /// How many there may be in all.
  [[nodiscard]] std::size_t threads_at_most() const noexcept { return threads_at_most_; }
  /// How many there are now.
  [[nodiscard]] std::size_t threads() const;

 private:
  friend class CallLane;

  enum class Bound { max_queued, none };

  struct Queued {
    virtual ~Queued() = default;
    virtual void run() noexcept = 0;

    Bound bound = Bound::none;
    std::unique_ptr<Queued> next = {};
  };

  template <class Call>
  struct QueuedCall final : Queued {
    explicit QueuedCall(Call to_run) : call(std::move(to_run)) {}
    void run() noexcept override { call(); }

    Call call;
  };

  /// The lanes of one database server.
  struct Server {
    std::size_t running = 0;
  };

  struct Lane {
    std::shared_ptr<Server> server;
    std::size_t running = 0;
    std::size_t queued = 0;
    std::size_t queued_bounded = 0;  ///< those among them that clients asked for
    std::unique_ptr<Queued> first = {};
    Queued* last = nullptr;
  };
  using LanePtr = std::shared_ptr<Lane>;

  [[nodiscard]] LanePtr make_lane(const std::string& server);
  void push(const LanePtr& lane, std::unique_ptr<Queued> call);
  using Threads = std::list<std::jthread>;
  void work(Threads::iterator self);
  void run_next(std::unique_lock<std::mutex>& lock, std::list<LanePtr>::iterator place);
  // These need the lock.
  void let_another_work();
  [[nodiscard]] bool may_begin(const Lane& lane) const;
  [[nodiscard]] std::list<LanePtr>::iterator next();
  [[nodiscard]] std::unique_ptr<Queued> take(std::list<LanePtr>::iterator place);

  const std::size_t threads_per_server_;
  const std::size_t threads_at_most_;
  const std::size_t max_queued_;
  const std::chrono::milliseconds rest_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::weak_ptr<Server>> servers_;
  std::list<LanePtr> waiting_;  ///< those in which calls wait, in turn
  std::size_t queued_ = 0;      ///< of those with a bound
  std::size_t running_ = 0;
  std::size_t idle_ = 0;  ///< threads that wait for a call, or are about to
  bool stopped_ = false;
  const LanePtr own_lane_;
  std::mutex joining_;
  // Last: they use the members above.
  Threads ended_;  ///< have let go of the lock for good, and are to be joined
  Threads threads_;
};

/// The calls about one store. Borrows the pool. Safe from any thread.
class CallLane {
 public:
  /// `server` stands for the database server that the store lives on.
  CallLane(CallPool& pool, const std::string& server)
      : pool_(pool), lane_(pool.make_lane(server)) {}

  /// Runs `call()`, which must not throw. Throws `overloaded` when too many wait already, and
  /// `unavailable` after the pool has stopped.
  template <std::invocable Call>
  void submit(Call call) {
    push(std::move(call), CallPool::Bound::max_queued);
  }

  /// The same for work of the server's own, of which there is never more than a little: it is not
  /// refused when clients ask for too much. Dropped after the pool has stopped.
  template <std::invocable Call>
  void submit_own(Call call) {
    push(std::move(call), CallPool::Bound::none);
  }

  /// Sends what `make(const Request&)` returns, or the problem that it throws.
  template <std::invocable<const Request&> Make>
  void answer(const ExchangePtr& exchange, Make make) {
    submit([exchange, make = std::move(make)]() mutable {
      server::answer(*exchange, [&] { return make(exchange->request()); });
    });
  }

 private:
  friend class CallPool;
  CallLane(CallPool& pool, CallPool::LanePtr lane) : pool_(pool), lane_(std::move(lane)) {}

  template <class Call>
  void push(Call call, CallPool::Bound bound) {
    auto queued = std::make_unique<CallPool::QueuedCall<Call>>(std::move(call));
    queued->bound = bound;
    pool_.push(lane_, std::move(queued));
  }

  CallPool& pool_;
  const CallPool::LanePtr lane_;
};

template <std::invocable Call>
void CallPool::submit(Call call) {
  CallLane(*this, own_lane_).submit(std::move(call));
}

template <std::invocable Call>
void CallPool::submit_own(Call call) {
  CallLane(*this, own_lane_).submit_own(std::move(call));
}

template <std::invocable<const Request&> Make>
void CallPool::answer(const ExchangePtr& exchange, Make make) {
  CallLane(*this, own_lane_).answer(exchange, std::move(make));
}

}  // namespace oncebox::server
