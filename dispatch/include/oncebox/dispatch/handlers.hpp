#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "oncebox/dispatch/async_handler.hpp"
#include "oncebox/dispatch/batch_handler.hpp"
#include "oncebox/dispatch/handler_hooks.hpp"
#include "oncebox/dispatch/handler_options.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/payload_codec.hpp"
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

template <class Callable>
class CallableBatchHandler final : public BatchHandler {
 public:
  explicit CallableBatchHandler(Callable callable) : callable_(std::move(callable)) {}
  void handle(std::span<BatchMessage> batch) override { callable_(batch); }

 private:
  Callable callable_;
};

template <class Callable>
class CallableAsyncHandler final : public AsyncHandler {
 public:
  explicit CallableAsyncHandler(Callable callable) : callable_(std::move(callable)) {}
  void start(const ClaimedMessage& message, Completion completion) override {
    callable_(message, std::move(completion));
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
///                            {.max_concurrency = 2, .retry = RetryPolicy{.max_attempts = 3}});
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
    std::shared_ptr<Handler> handler = {};
    std::shared_ptr<TransactionalHandler> transactional = {};
    std::shared_ptr<BatchHandler> batch = {};
    std::shared_ptr<AsyncHandler> async = {};
    HandlerOptions options = {};
    std::size_t max_batch = 1;  ///< messages in one call
  };

  struct DeadRegistration {
    TopicPattern pattern;
    DeadHandler handler;
  };

  /// Throws `conflict` when the pattern has a handler already, `invalid_argument` when the pointer
  /// is null, and as `HandlerOptions::validate` does; then nothing changed.
  Handlers& on(TopicPattern pattern, std::shared_ptr<Handler> handler,
               const HandlerOptions& options = {});
  Handlers& on(TopicPattern pattern, std::shared_ptr<TransactionalHandler> handler,
               const HandlerOptions& options = {});

  template <class Callable>
    requires std::invocable<Callable&, const ClaimedMessage&, HandlerContext&>
  Handlers& on(TopicPattern pattern, Callable callable, const HandlerOptions& options = {}) {
    return on(std::move(pattern),
              std::make_shared<detail::CallableHandler<Callable>>(std::move(callable)), options);
  }

  template <class Callable>
    requires std::invocable<Callable&, const ClaimedMessage&, Transaction&, HandlerContext&>
  Handlers& on(TopicPattern pattern, Callable callable, const HandlerOptions& options = {}) {
    return on(std::move(pattern),
              std::make_shared<detail::CallableTransactionalHandler<Callable>>(std::move(callable)),
              options);
  }

  /// Decodes the payload through `PayloadCodec<T>`. A payload that cannot be decoded is a permanent
  /// failure, whose text never contains it.
  template <DecodablePayload T, class Callable>
    requires std::invocable<Callable&, const T&, HandlerContext&>
  Handlers& on(TopicPattern pattern, Callable callable, const HandlerOptions& options = {}) {
    return on(
        std::move(pattern),
        [callable = std::move(callable)](const ClaimedMessage& claimed,
                                         HandlerContext& context) mutable {
          callable(detail::decoded<T>(claimed.message.payload), context);
        },
        options);
  }

  template <DecodablePayload T, class Callable>
    requires std::invocable<Callable&, const T&, Transaction&, HandlerContext&>
  Handlers& on(TopicPattern pattern, Callable callable, const HandlerOptions& options = {}) {
    return on(
        std::move(pattern),
        [callable = std::move(callable)](const ClaimedMessage& claimed, Transaction& transaction,
                                         HandlerContext& context) mutable {
          callable(detail::decoded<T>(claimed.message.payload), transaction, context);
        },
        options);
  }

  /// Handles several messages in one call, see `BatchHandler`.
  ///
  ///     handlers.on_batch("row.*", [&](std::span<BatchMessage> rows) { table.insert(rows); });
  Handlers& on_batch(TopicPattern pattern, std::shared_ptr<BatchHandler> handler,
                     const BatchOptions& options = {});
  template <class Callable>
    requires std::invocable<Callable&, std::span<BatchMessage>>
  Handlers& on_batch(TopicPattern pattern, Callable callable, const BatchOptions& options = {}) {
    return on_batch(std::move(pattern),
                    std::make_shared<detail::CallableBatchHandler<Callable>>(std::move(callable)),
                    options);
  }

  /// Handles messages without holding a thread, see `AsyncHandler`.
  ///
  ///     handlers.on_async("call.*", [&](const ClaimedMessage& message, Completion completion) {
  ///       client.send(message.message.payload, std::move(completion));
  ///     });
  Handlers& on_async(TopicPattern pattern, std::shared_ptr<AsyncHandler> handler,
                     const HandlerOptions& options = {});
  template <class Callable>
    requires std::invocable<Callable&, const ClaimedMessage&, Completion>
  Handlers& on_async(TopicPattern pattern, Callable callable, const HandlerOptions& options = {}) {
    return on_async(std::move(pattern),
                    std::make_shared<detail::CallableAsyncHandler<Callable>>(std::move(callable)),
                    options);
  }

  /// Runs around every call of a handler that `on` registers, before or after. The first one is the
  /// outermost. Throws `invalid_argument` when it is empty.
  Handlers& around(Middleware middleware);
  /// The same for handlers that `on_batch` registers, and for those that `on_async` does.
  Handlers& around_batch(BatchMiddleware middleware);
  Handlers& around_async(AsyncMiddleware middleware);

  /// Hears of the messages of these topics that become dead, also of topics that nobody handles.
  /// Throws `conflict` when the pattern has one already, `invalid_argument` when it is empty.
  Handlers& on_dead(TopicPattern pattern, DeadHandler handler);

  [[nodiscard]] const std::vector<Registration>& registrations() const noexcept {
    return registrations_;
  }
  [[nodiscard]] const std::vector<Middleware>& middleware() const noexcept { return middleware_; }
  [[nodiscard]] const std::vector<BatchMiddleware>& batch_middleware() const noexcept {
    return batch_middleware_;
  }
  [[nodiscard]] const std::vector<AsyncMiddleware>& async_middleware() const noexcept {
    return async_middleware_;
  }
  [[nodiscard]] const std::vector<DeadRegistration>& dead_handlers() const noexcept {
    return dead_handlers_;
  }

 private:
  Handlers& add(Registration registration);

  std::vector<Registration> registrations_;
  std::vector<Middleware> middleware_;
  std::vector<BatchMiddleware> batch_middleware_;
  std::vector<AsyncMiddleware> async_middleware_;
  std::vector<DeadRegistration> dead_handlers_;
};

}  // namespace oncebox
