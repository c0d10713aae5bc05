#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "oncebox/handler.hpp"
#include "oncebox/log.hpp"
#include "oncebox/no_handler_policy.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/retry_policy.hpp"

namespace oncebox::dispatcher {

/// The border around handlers: calls one and turns whatever it does into a verdict. Safe from any
/// thread.
class HandlerCalls {
 public:
  /// Everything is borrowed.
  HandlerCalls(const RetryPolicies& retries, NoHandlerPolicy no_handler, Logger& logger,
               const std::string& store_name);

  [[nodiscard]] Verdict call(Handler& handler, const ClaimedMessage& message,
                             HandlerContext& context) noexcept;

  /// For a message that nobody handles.
  [[nodiscard]] Verdict refuse(const ClaimedMessage& message) noexcept;

 private:
  struct Failure;

  [[nodiscard]] Verdict verdict_of(const Failure& failure, const ClaimedMessage& message);
  void log(LogLevel level, std::string_view text, const ClaimedMessage& claimed,
           const Failure* failure) noexcept;
  std::uint64_t entropy() noexcept;

  const RetryPolicies& retries_;
  const NoHandlerPolicy no_handler_;
  Logger& logger_;
  const std::string& store_name_;
  std::atomic<std::uint64_t> entropy_state_;
};

}  // namespace oncebox::dispatcher
