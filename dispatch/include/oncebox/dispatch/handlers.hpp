#pragma once

#include <concepts>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "oncebox/handler.hpp"
#include "oncebox/payload_codec.hpp"
#include "oncebox/topic_limits.hpp"
#include "oncebox/topic_pattern.hpp"

namespace oncebox {

namespace detail {

template <class Callable>
class CallableHandler final : public Handler {
 public:
  explicit CallableHandler(Callable callable) : callable_(std::move(callable)) {}
  void handle(const ClaimedMessage& message, HandlerContext& context) override {
    callable_(message, context);
  }

 private:
  Callable callable_;
};

template <class Callable>
class CallableTransactionalHandler final : public TransactionalHandler {
 public:
  explicit CallableTransactionalHandler(Callable callable) : callable_(std::move(callable)) {}
  void handle(const ClaimedMessage& message, Transaction& transaction,
              HandlerContext& context) override {
    callable_(message, transaction, context);
  }

 private:
  Callable callable_;
};

/// What is thrown for a payload that its codec refuses. The codec's own text is left out: it may
/// quote the payload.
[[noreturn]] void throw_undecodable();

/// By value or by reference, as the codec answers.
template <class T>
decltype(auto) decoded(const Payload& payload) {
  try {
    return PayloadCodec<T>::decode(payload);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    throw_undecodable();
  }
}

}  // namespace detail

/// Which handler serves which topics. Filled once and given to a dispatcher; not safe to change
/// from several threads. An exact pattern wins over the longest stem.
///
///     Handlers handlers;
///     handlers.on("order.*", [](const ClaimedMessage& message, HandlerContext&) { … });
///     handlers.on<OrderPaid>("order.paid", [](const OrderPaid& paid, HandlerContext&) { … },
///                            {.max_concurrency = 2});
///     handlers.on<OrderPaid>("order.shipped",
///                            [](const OrderPaid& paid, Transaction& transaction,
///                               HandlerContext&) { … });
///
/// Limits hold for this dispatcher: while one is reached it claims none of the pattern's topics, so
/// that other processes can. Those that hold for all processes are in the store, see `TopicPolicy`.
/// A callable is called from several threads at once. One that takes a transaction is a
/// `TransactionalHandler`, for stores that have transactions.
class Handlers {
 public:
  /// One of the handlers is there. They are shared: one object may serve several patterns.
  struct Registration {
    TopicPattern pattern;
    std::shared_ptr<Handler> handler;
    std::shared_ptr<TransactionalHandler> transactional;
    TopicLimits limits;
  };

  /// Throws `conflict` when the pattern has a handler already, `invalid_argument` when the pointer
  /// is null, and as `TopicLimits::validate` does; then nothing changed.
  Handlers& on(TopicPattern pattern, std::shared_ptr<Handler> handler, TopicLimits limits = {});
  Handlers& on(TopicPattern pattern, std::shared_ptr<TransactionalHandler> handler,
               TopicLimits limits = {});

  template <class Callable>
    requires std::invocable<Callable&, const ClaimedMessage&, HandlerContext&>
  Handlers& on(TopicPattern pattern, Callable callable, TopicLimits limits = {}) {
    return on(std::move(pattern),
              std::make_shared<detail::CallableHandler<Callable>>(std::move(callable)), limits);
  }

  template <class Callable>
    requires std::invocable<Callable&, const ClaimedMessage&, Transaction&, HandlerContext&>
  Handlers& on(TopicPattern pattern, Callable callable, TopicLimits limits = {}) {
    return on(std::move(pattern),
              std::make_shared<detail::CallableTransactionalHandler<Callable>>(std::move(callable)),
              limits);
  }

  /// Decodes the payload through `PayloadCodec<T>`. A payload that cannot be decoded is a permanent
  /// failure, whose text never contains it.
  template <DecodablePayload T, class Callable>
    requires std::invocable<Callable&, const T&, HandlerContext&>
  Handlers& on(TopicPattern pattern, Callable callable, TopicLimits limits = {}) {
    return on(
        std::move(pattern),
        [callable = std::move(callable)](const ClaimedMessage& claimed,
                                         HandlerContext& context) mutable {
          callable(detail::decoded<T>(claimed.message.payload), context);
        },
        limits);
  }

  template <DecodablePayload T, class Callable>
    requires std::invocable<Callable&, const T&, Transaction&, HandlerContext&>
  Handlers& on(TopicPattern pattern, Callable callable, TopicLimits limits = {}) {
    return on(
        std::move(pattern),
        [callable = std::move(callable)](const ClaimedMessage& claimed, Transaction& transaction,
                                         HandlerContext& context) mutable {
          callable(detail::decoded<T>(claimed.message.payload), transaction, context);
        },
        limits);
  }

  [[nodiscard]] const std::vector<Registration>& registrations() const noexcept {
    return registrations_;
  }

 private:
  Handlers& add(Registration registration);

  std::vector<Registration> registrations_;
};

}  // namespace oncebox
