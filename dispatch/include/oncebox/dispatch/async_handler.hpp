#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <utility>

#include "oncebox/handler.hpp"
#include "oncebox/message.hpp"

namespace oncebox {

namespace detail {

/// The dispatcher's end of a `Completion`. Safe from any thread.
class AsyncCall {
 public:
  virtual ~AsyncCall() = default;
  [[nodiscard]] virtual const HandlerContext& context() const noexcept = 0;
  /// Null: the message is done.
  virtual void complete(std::exception_ptr failure) noexcept = 0;
  virtual void drop() noexcept = 0;
};

}  // namespace detail

/// How a handler that holds no thread says what has become of its message: once, from any thread,
/// also before the handler has returned. One that is destroyed without having said it is a failure
/// of the attempt.
///
/// Has no effect any more when the lease was lost, or when the dispatcher has stopped and released
/// the message: then the message comes again. It may outlive the dispatcher.
class Completion {
 public:
  explicit Completion(std::shared_ptr<detail::AsyncCall> call) : call_(std::move(call)) {}
  ~Completion() {
    if (call_ != nullptr && !is_used_) call_->drop();
  }
  Completion(Completion&& other) noexcept
      : call_(std::move(other.call_)), is_used_(other.is_used_) {}
  Completion& operator=(Completion&& other) noexcept {
    std::swap(call_, other.call_);
    std::swap(is_used_, other.is_used_);
    return *this;
  }
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// The message, the stop token and so on; valid for as long as this exists.
  [[nodiscard]] const HandlerContext& context() const noexcept { return call_->context(); }

  /// The message is done.
  void done() noexcept { complete(nullptr); }
  /// What follows is what would follow if a handler had thrown it: `PermanentFailure`,
  /// `RetryAfter`, `NotNow` or anything else.
  void failed(std::exception_ptr failure) noexcept { complete(std::move(failure)); }
  template <std::derived_from<std::exception> Exception>
  void failed(const Exception& failure) noexcept {
    failed(std::make_exception_ptr(failure));
  }

 private:
  /// Only the first time.
  void complete(std::exception_ptr failure) noexcept {
    if (!std::exchange(is_used_, true)) call_->complete(std::move(failure));
  }

  std::shared_ptr<detail::AsyncCall> call_;  // null: moved from
  bool is_used_ = false;
};

/// Begins to handle a message, and says later what has become of it: requests over a network of
/// which thousands are under way, without a thread for each.
///
/// The message is valid for as long as the completion exists. What `start` throws is a failure
/// as that of a `Handler`, unless the completion was used before. Leases are extended until the
/// completion is used. As many messages are under way at a time as the dispatcher may hold
/// (`max_buffered`, and two batches), unless the options of the handler say fewer.
///
/// A dispatcher that stops waits for completions as it waits for handlers, then requests the stop
/// tokens, waits again, and releases what is left without counting an attempt. Its destructor waits
/// for none.
class AsyncHandler {
 public:
  virtual ~AsyncHandler() = default;
  virtual void start(const ClaimedMessage& message, Completion completion) = 0;
};

}  // namespace oncebox
