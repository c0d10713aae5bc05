#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/dispatch/batch_handler.hpp"
#include "oncebox/dispatch/no_handler_policy.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/log.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::dispatcher {

/// What the `RetryAfter` of a publisher becomes: the delay of the policy holds where it is longer.
/// Otherwise a receiver that always says "in a second" would use up the attempts of a message in no
/// time.
class RetryNotBefore final : public RetryAfter {
 public:
  using RetryAfter::RetryAfter;
};

/// The border around handlers: calls one and turns whatever it does into a verdict. Safe from any
/// thread.
class HandlerCalls {
 public:
  struct Settings {
    const RetryPolicies& retries;  ///< what they leave open is for the store's policies
    NoHandlerPolicy no_handler;
    std::optional<int> max_deliveries;       ///< nothing: the store's policies decide
    std::optional<std::uint64_t> seed = {};  ///< of the jitter; nothing: a random one
  };

  /// Everything is borrowed.
  HandlerCalls(const Settings& settings, Logger& logger, const Clock& clock);

  struct Answer {
    Verdict verdict;
    bool is_recorded = false;      ///< committed together with what the handler did
    bool may_be_recorded = false;  ///< the answer to the commit was lost
  };

  [[nodiscard]] Answer call(Handler& handler, HandlerContext& context) noexcept;
  /// `transactions` is null when the store of the message has none.
  [[nodiscard]] Answer call(TransactionalHandler& handler, TransactionalQueue* transactions,
                            HandlerContext& context) noexcept;

  /// One answer for each message.
  void call(BatchHandler& handler, std::span<BatchMessage> batch,
            std::span<Answer> answers) noexcept;
  /// Logs the call of a handler that holds no thread, before it begins; `conclude` ends it. The
  /// calls above log themselves.
  void log_call(const HandlerContext& context) noexcept;
  /// Of a handler that has said what it would have thrown; null when it is done.
  [[nodiscard]] Answer conclude(const HandlerContext& context,
                                const std::exception_ptr& failure) noexcept;

  /// Whether a failure would be the last one, by the dispatcher's own rules; what they leave open,
  /// by what the store said with the claim.
  [[nodiscard]] bool is_last_attempt(const ClaimedMessage& message) const noexcept;

  /// For a message that nobody handles.
  [[nodiscard]] Verdict refuse(const ClaimedMessage& message, std::string_view store) noexcept;

  /// For a message whose workers died too often by the dispatcher's own limit. Nothing: it
  /// may be handled.
  [[nodiscard]] std::optional<Verdict> bury(const ClaimedMessage& message,
                                            std::string_view store) noexcept;

 private:
  struct Failure;

  /// The verdict on whatever `handle` throws.
  template <class Handle>
  [[nodiscard]] Answer guarded(const HandlerContext& context, Handle handle) noexcept;
  [[nodiscard]] Answer call_in_transaction(TransactionalHandler& handler,
                                           TransactionalQueue& transactions,
                                           HandlerContext& context);
  [[nodiscard]] Verdict verdict_of(const Failure& failure, const HandlerContext& context);
  /// What follows from a failure by the dispatcher's own rules; what they leave open, the store
  /// decides, which also sees when it was the last.
  [[nodiscard]] Abandon retry(const ClaimedMessage& message, std::string error, std::string kind);
  void log(LogLevel level, std::string_view text, const HandlerContext& context,
           const Failure* failure) noexcept;
  std::uint64_t entropy() noexcept;

  const RetryPolicies& retries_;
  const NoHandlerPolicy no_handler_;
  const std::optional<int> max_deliveries_;
  Logger& logger_;
  const Clock& clock_;
  std::atomic<std::uint64_t> entropy_state_;
};

}  // namespace oncebox::dispatcher
