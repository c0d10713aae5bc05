#pragma once

#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "http/answers.hpp"

namespace oncebox::server {

/// The threads that wait for stores, so that those of the sockets never do. Calls begin in the
/// order in which they came. Every call but the destructor is safe from any thread.
class CallPool {
 public:
  CallPool(std::size_t threads, std::size_t max_queued);
  /// Stops, as `stop` does.
  ~CallPool();
  CallPool(const CallPool&) = delete;
  CallPool& operator=(const CallPool&) = delete;

  /// Runs `call()`, which must not throw. Throws `overloaded` when too many wait already, and
  /// `unavailable` after `stop`.
  template <std::invocable Call>
  void submit(Call call) {
    push(std::make_unique<QueuedCall<Call>>(std::move(call)), Bound::max_queued);
  }

  /// The same for work of the server's own, of which there is never more than a little: it is not
  /// refused when clients ask for too much. Dropped after `stop`.
  template <std::invocable Call>
  void submit_own(Call call) {
    push(std::make_unique<QueuedCall<Call>>(std::move(call)), Bound::none);
  }

  /// Sends what `make(const Request&)` returns, or the problem that it throws.
  template <std::invocable<const Request&> Make>
  void answer(const ExchangePtr& exchange, Make make) {
    submit([exchange, make = std::move(make)]() mutable {
      server::answer(*exchange, [&] { return make(exchange->request()); });
    });
  }

  /// Refuses further calls, runs those that wait, and returns then. Must not be called by a call.
  void stop();
  /// Refuses further calls and drops those that wait: nobody is there any more to be answered.
  void discard();

 private:
  struct Queued {
    virtual ~Queued() = default;
    virtual void run() noexcept = 0;

    std::unique_ptr<Queued> next = {};
  };

  template <class Call>
  struct QueuedCall final : Queued {
    explicit QueuedCall(Call to_run) : call(std::move(to_run)) {}
    void run() noexcept override { call(); }

    Call call;
  };

  enum class Bound { max_queued, none };

  void push(std::unique_ptr<Queued> call, Bound bound);
  [[nodiscard]] std::unique_ptr<Queued> pop();
  void work();

  const std::size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Queued> first_;
  Queued* last_ = nullptr;
  std::size_t queued_ = 0;
  bool stopped_ = false;
  std::mutex joining_;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace oncebox::server
