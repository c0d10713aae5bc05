#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "oncebox/handler.hpp"
#include "oncebox/log.hpp"
#include "oncebox/no_handler_policy.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::dispatcher {

/// The border around handlers: calls one and turns whatever it does into a verdict. Safe from any
/// thread.
class HandlerCalls {
 public:
  /// Everything is borrowed.
  HandlerCalls(const RetryPolicies& retries, NoHandlerPolicy no_handler, Logger& logger);

  struct Answer {
    Verdict verdict;
    bool is_recorded = false;      ///< committed together with what the handler did
    bool may_be_recorded = false;  ///< the answer to the commit was lost
  };

  [[nodiscard]] Answer call(Handler& handler, HandlerContext& context) noexcept;
  /// `transactions` is null when the store of the message has none.
  [[nodiscard]] Answer call(TransactionalHandler& handler, TransactionalQueue* transactions,
                            HandlerContext& context) noexcept;

  /// For a message that nobody handles.
  [[nodiscard]] Verdict refuse(const ClaimedMessage& message, std::string_view store) noexcept;

 private:
  struct Failure;

  /// The verdict on whatever `handle` throws.
  template <class Handle>
  [[nodiscard]] Answer guarded(HandlerContext& context, Handle handle) noexcept;
  [[nodiscard]] Answer call_in_transaction(TransactionalHandler& handler,
                                           TransactionalQueue& transactions,
                                           HandlerContext& context);
  [[nodiscard]] Verdict verdict_of(const Failure& failure, const HandlerContext& context);
  void log(LogLevel level, std::string_view text, const HandlerContext& context,
           const Failure* failure) noexcept;
  std::uint64_t entropy() noexcept;

  const RetryPolicies& retries_;
  const NoHandlerPolicy no_handler_;
  Logger& logger_;
  std::atomic<std::uint64_t> entropy_state_;
};

}  // namespace oncebox::dispatcher
