#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>

#include "oncebox/dispatch/handler_options.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/message.hpp"

namespace oncebox {

/// One message of a batch, and what becomes of it. Valid only during the call.
class BatchMessage {
 public:
  explicit BatchMessage(HandlerContext context) : context_(std::move(context)) {}

  [[nodiscard]] const ClaimedMessage& message() const noexcept { return context_.message(); }
  [[nodiscard]] const HandlerContext& context() const noexcept { return context_; }

  /// The message is done, also when the handler throws because of another one.
  void done() noexcept { decide(nullptr); }
  /// What follows is what would follow if a handler of this message alone had thrown it:
  /// `PermanentFailure`, `RetryAfter`, `NotNow` or anything else.
  void failed(std::exception_ptr failure) noexcept { decide(std::move(failure)); }
  template <std::derived_from<std::exception> Exception>
  void failed(const Exception& failure) noexcept {
    failed(std::make_exception_ptr(failure));
  }

  [[nodiscard]] bool is_decided() const noexcept { return is_decided_; }
  /// Null: it is done, or not decided.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

 private:
  void decide(std::exception_ptr failure) noexcept {
    is_decided_ = true;
    failure_ = std::move(failure);
  }

  HandlerContext context_;
  bool is_decided_ = false;
  std::exception_ptr failure_;
};

/// Handles several messages in one call: rows that are inserted together, mail for one connection.
///
/// A batch is what waits, up to its size: nothing is waited for to make it larger. Its messages are
/// of one store and of the topics of one handler, and of no partition key twice. When the handler
/// returns, those that it has not decided about are done; when it throws, they have failed by what
/// it has thrown. Otherwise as `Handler`. Their stop tokens are one, which is requested when the
/// dispatcher has waited long enough while it stops; a lease that is lost is told by the context of
/// its message alone.
class BatchHandler {
 public:
  virtual ~BatchHandler() = default;
  virtual void handle(std::span<BatchMessage> batch) = 0;
};

struct BatchOptions {
  std::size_t max_messages = 100;  ///< in one call
  HandlerOptions handler = {};     ///< its limits count messages, not batches

  /// Throws `out_of_range`.
  void validate() const;
};

}  // namespace oncebox
