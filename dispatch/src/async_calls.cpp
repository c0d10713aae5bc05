#include "async_calls.hpp"

#include <algorithm>
#include <stdexcept>

namespace oncebox::dispatcher {

namespace {

std::exception_ptr dropped() {
  return std::make_exception_ptr(
      std::runtime_error("the handler dropped its completion without using it"));
}

std::exception_ptr not_completed() {
  return std::make_exception_ptr(
      std::runtime_error("the handler had not completed when the dispatcher stopped"));
}

// What has become of a call when this was told: what it throws takes the place of the failure.
std::exception_ptr after_telling(const AsyncEnd& on_end,
                                 const std::exception_ptr& failure) noexcept {
  try {
    on_end(failure);
    return failure;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

AsyncCallInFlight::AsyncCallInFlight(std::shared_ptr<AsyncCalls> calls, InFlight& message,
                                     bool is_last_attempt, SteadyTime began_at)
    : calls_(std::move(calls)),
      claimed_(*message.claimed),
      store_(message.origin->store),
      context_(claimed_, {.stop = stop_.get_token(),
                          .lease_lost = &lease_lost_,
                          .store = store_,
                          .is_last_attempt = is_last_attempt}),
      began_at_(began_at),
      message_(&message) {}

void AsyncCallInFlight::complete(std::exception_ptr failure) noexcept {
  calls_->end(*this, failure);
}

void AsyncCallInFlight::drop() noexcept { calls_->drop(*this); }

bool AsyncCallInFlight::tell_end(AsyncEnd on_end) {
  return calls_->tell_end(*this, std::move(on_end));
}

AsyncCalls::CallPtr AsyncCalls::begin(InFlight& message, bool is_last_attempt, SteadyTime now) {
  auto call =
      std::make_shared<AsyncCallInFlight>(shared_from_this(), message, is_last_attempt, now);
  const detail::Lock lock(mutex_);
  // A thread that interrupts says so before it takes the lock: it is seen here, or finds the call.
  if (is_interrupted_ || message.lease_lost) return nullptr;
  calls_.emplace(&message, call);
  message.stage = InFlight::Stage::running;
  return call;
}

void AsyncCalls::started(AsyncCallInFlight& call, const std::exception_ptr& failure) noexcept {
  bool is_dropped = false;
  {
    const detail::Lock lock(mutex_);
    call.is_starting_ = false;
    is_dropped = call.is_dropped_;
  }
  if (failure) {
    end(call, failure);
  } else if (is_dropped) {
    end(call, dropped());
  }
}

void AsyncCalls::drop(AsyncCallInFlight& call) noexcept {
  {
    const detail::Lock lock(mutex_);
    call.is_dropped_ = true;
    // Perhaps because it throws: what it throws says more.
    if (call.is_starting_) return;
  }
  end(call, dropped());
}

bool AsyncCalls::tell_end(AsyncCallInFlight& call, AsyncEnd on_end) {
  try {
    const detail::Lock lock(mutex_);
    if (call.message_ != nullptr) {
      call.ends_.push_back(std::move(on_end));
      return true;
    }
  } catch (...) {  // no memory: it was not moved
    end(call, after_telling(on_end, std::current_exception()));
    return false;
  }
  // Only a stop ends a call that no handler has begun.
  after_telling(on_end, not_completed());
  return false;
}

bool AsyncCalls::end(AsyncCallInFlight& call, const std::exception_ptr& failure) noexcept {
  InFlight* message = nullptr;
  CallPtr kept;
  std::vector<AsyncEnd> ends;
  {
    const detail::Lock lock(mutex_);
    message = std::exchange(call.message_, nullptr);
    if (message == nullptr) return false;
    const auto found = calls_.find(message);
    kept = std::move(found->second);
    calls_.erase(found);
    ends = std::move(call.ends_);
    ++ending_;
  }
  std::exception_ptr outcome = failure;
  for (; !ends.empty(); ends.pop_back()) outcome = after_telling(ends.back(), outcome);
  on_end_(call, *message, outcome);
  const detail::Lock lock(mutex_);
  --ending_;
  ended_.notify_all();
  return true;
}

void AsyncCalls::interrupt(const Renewal& delivery) {
  CallPtr call;
  {
    const detail::Lock lock(mutex_);
    const auto found = calls_.find(delivery.message);
    // The call may have ended, and its `InFlight` be that of another message.
    if (found == calls_.end() || !delivery.message->lease_lost) return;
    call = found->second;
  }
  call->lease_lost_ = true;
  call->stop_.request_stop();
}

void AsyncCalls::interrupt_all() noexcept {
  const auto runs = [](const auto& entry) { return !entry.second->stop_.stop_requested(); };
  for (;;) {
    CallPtr call;
    {
      const detail::Lock lock(mutex_);
      is_interrupted_ = true;
      const auto next = std::ranges::find_if(calls_, runs);
      if (next == calls_.end()) return;
      call = next->second;
    }
    call->stop_.request_stop();  // without the lock: it runs what the handler has registered
  }
}

std::size_t AsyncCalls::close() noexcept {
  std::size_t ended = 0;
  for (;;) {
    CallPtr call;
    {
      const detail::Lock lock(mutex_);
      is_interrupted_ = true;
      if (calls_.empty()) {
        while (ending_ > 0) ended_.wait(mutex_);
        return ended;
      }
      call = calls_.begin()->second;
    }
    call->stop_.request_stop();
    if (end(*call, not_completed())) ++ended;
  }
}

std::size_t AsyncCalls::running() const {
  const detail::Lock lock(mutex_);
  return calls_.size();
}

}  // namespace oncebox::dispatcher
