#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "in_flight.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/async_handler.hpp"
#include "oncebox/dispatch/handler_hooks.hpp"

namespace oncebox::dispatcher {

class AsyncCalls;

/// A message that is handled without a thread. It has a copy of the message, since it may outlive
/// the dispatcher.
class AsyncCallInFlight final : public detail::AsyncCall,
                                public std::enable_shared_from_this<AsyncCallInFlight> {
 public:
  AsyncCallInFlight(std::shared_ptr<AsyncCalls> calls, InFlight& message, bool is_last_attempt,
                    SteadyTime began_at);

  [[nodiscard]] const ClaimedMessage& claimed() const noexcept { return claimed_; }
  [[nodiscard]] SteadyTime began_at() const noexcept { return began_at_; }

  [[nodiscard]] const HandlerContext& context() const noexcept override { return context_; }
  void complete(std::exception_ptr failure) noexcept override;
  void drop() noexcept override;

  /// Tells `on_end` how this ends, before the ones that it was given earlier. False when this is
  /// over, also because there is no memory to keep `on_end`: then `on_end` was told at once.
  [[nodiscard]] bool tell_end(AsyncEnd on_end);

 private:
  friend class AsyncCalls;

  const std::shared_ptr<AsyncCalls> calls_;
  const ClaimedMessage claimed_;
  std::string store_;
  std::stop_source stop_;
  std::atomic<bool> lease_lost_ = false;
  HandlerContext context_;
  const SteadyTime began_at_;

  // Guarded by `calls_`.
  InFlight* message_;  ///< null: it is over
  std::vector<AsyncEnd> ends_;
  bool is_starting_ = true;  ///< the handler has not returned
  bool is_dropped_ = false;
};

/// The messages that are handled without a thread. What completes after `close` has no effect and
/// touches nothing of the dispatcher. Safe from any thread.
class AsyncCalls final : public std::enable_shared_from_this<AsyncCalls> {
 public:
  using CallPtr = std::shared_ptr<AsyncCallInFlight>;
  /// A call is over; a null failure means that its message is done.
  using OnEnd = std::function<void(AsyncCallInFlight& call, InFlight& message,
                                   const std::exception_ptr& failure)>;

  explicit AsyncCalls(OnEnd on_end) : on_end_(std::move(on_end)) {}

  /// Null when nothing is to begin any more. Throws when there is no memory.
  [[nodiscard]] CallPtr begin(InFlight& message, bool is_last_attempt, SteadyTime now);
  /// The handler has returned or, with a failure, thrown.
  void started(AsyncCallInFlight& call, const std::exception_ptr& failure) noexcept;

  /// Requests the stop token of this delivery, if it is one of them.
  void interrupt(const Renewal& delivery);
  /// Requests those of all; none begins any more.
  void interrupt_all() noexcept;
  /// Ends those that are left as interrupted, and answers how many. Nothing has an effect after it.
  std::size_t close() noexcept;

  [[nodiscard]] std::size_t running() const;

 private:
  friend class AsyncCallInFlight;

  /// False when it was over before.
  bool end(AsyncCallInFlight& call, const std::exception_ptr& failure) noexcept;
  void drop(AsyncCallInFlight& call) noexcept;
  [[nodiscard]] bool tell_end(AsyncCallInFlight& call, AsyncEnd on_end);

  const OnEnd on_end_;
  mutable detail::Mutex mutex_;
  detail::Condition ended_;
  std::unordered_map<const InFlight*, CallPtr> calls_ ONCEBOX_GUARDED_BY(mutex_);
  std::size_t ending_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  bool is_interrupted_ ONCEBOX_GUARDED_BY(mutex_) = false;
};

}  // namespace oncebox::dispatcher
