#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "http/answers.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

/// Answers clients that ask for the same thing with one look at it. Clients that ask while a look
/// waits for its turn share it: however many ask, one look is under way and one waits, and nobody
/// is told what was true before it asked. Safe from any thread.
class SharedAnswer {
 public:
  /// `look()` runs in `calls`, a `CallPool` or a `CallLane`, and returns what makes the answer to
  /// one request, one after the other; what either throws becomes a problem. It keeps this object
  /// alive. Throws as `calls.submit` does.
  template <class Calls, std::invocable Look>
  void ask(Calls& calls, const ExchangePtr& exchange, Look look) {
    const detail::Lock lock(mutex_);
    if (const std::shared_ptr<Round> round = next_.lock()) {
      round->push_back(exchange);
      return;
    }
    const auto round = std::make_shared<Round>(1, exchange);
    calls.submit(exchange->request(),
                 [this, round, look = std::move(look)]() noexcept { answer_all(*round, look); });
    next_ = round;
  }

 private:
  using Round = std::vector<ExchangePtr>;

  template <class Look>
  void answer_all(const Round& round, const Look& look) noexcept {
    const detail::Lock turn(turn_);
    {
      // A client that asks from now on gets a look that begins from now on.
      const detail::Lock lock(mutex_);
      next_.reset();
    }
    try {
      const auto make = look();
      for (const ExchangePtr& exchange : round) {
        answer(*exchange, [&] { return make(exchange->request()); });
      }
    } catch (...) {
      for (const ExchangePtr& exchange : round) {
        exchange->send(failure_response(std::current_exception(), exchange->request()));
      }
    }
  }

  detail::Mutex turn_;
  detail::Mutex mutex_;
  /// The clients that wait for the next look. Only its call owns them, so they are let go when the
  /// pool drops the call.
  std::weak_ptr<Round> next_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::server
