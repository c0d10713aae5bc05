#include "middleware.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace oncebox::dispatcher {

namespace {

// Calls the handler with the middleware around it, which gets `what` it handles.
template <class AnyMiddleware, class... What>
void run(std::span<const AnyMiddleware> around, const NextHandler& handler, What&... what) {
  if (around.empty()) return handler();
  const auto next = [&] { run(around.subspan(1), handler, what...); };
  around.front()(what..., std::ref(next));  // a reference needs no memory
}

class AroundHandler final : public Handler {
 public:
  AroundHandler(std::vector<Middleware> around, std::shared_ptr<Handler> handler)
      : around_(std::move(around)), handler_(std::move(handler)) {}
  void handle(const ClaimedMessage& message, HandlerContext& context) override {
    const auto call = [&] { handler_->handle(message, context); };
    run<Middleware>(around_, std::ref(call), message, context);
  }

 private:
  const std::vector<Middleware> around_;
  const std::shared_ptr<Handler> handler_;
};

class AroundTransactionalHandler final : public TransactionalHandler {
 public:
  AroundTransactionalHandler(std::vector<Middleware> around,
                             std::shared_ptr<TransactionalHandler> handler)
      : around_(std::move(around)), handler_(std::move(handler)) {}
  void handle(const ClaimedMessage& message, Transaction& transaction,
              HandlerContext& context) override {
    const auto call = [&] { handler_->handle(message, transaction, context); };
    run<Middleware>(around_, std::ref(call), message, context);
  }

 private:
  const std::vector<Middleware> around_;
  const std::shared_ptr<TransactionalHandler> handler_;
};

class AroundBatchHandler final : public BatchHandler {
 public:
  AroundBatchHandler(std::vector<BatchMiddleware> around, std::shared_ptr<BatchHandler> handler)
      : around_(std::move(around)), handler_(std::move(handler)) {}
  void handle(std::span<BatchMessage> batch) override {
    const auto call = [&] { handler_->handle(batch); };
    run<BatchMiddleware>(around_, std::ref(call), batch);
  }

 private:
  const std::vector<BatchMiddleware> around_;
  const std::shared_ptr<BatchHandler> handler_;
};

/// Begins a call, with the middleware around the beginning.
class AsyncStart {
 public:
  AsyncStart(AsyncHandler& handler, const AsyncCalls::CallPtr& call)
      : handler_(handler), call_(call) {}

  void run(std::span<const AsyncMiddleware> around) {
    if (around.empty()) {
      has_begun_ = true;
      return handler_.start(call_->claimed(), Completion(call_));
    }
    const auto next = [&](AsyncEnd on_end) {
      try {
        if (on_end && !call_->tell_end(std::move(on_end))) return;
        run(around.subspan(1));
      } catch (...) {
        call_->complete(std::current_exception());
      }
    };
    around.front()(call_->claimed(), call_->context(), std::ref(next));
  }
  [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }

 private:
  AsyncHandler& handler_;
  const AsyncCalls::CallPtr& call_;
  bool has_begun_ = false;
};

}  // namespace

Handlers::Registration with_middleware(const Handlers::Registration& registration,
                                       const Handlers& handlers) {
  Handlers::Registration wrapped = registration;
  const std::vector<Middleware>& around = handlers.middleware();
  if (wrapped.handler != nullptr && !around.empty()) {
    wrapped.handler = std::make_shared<AroundHandler>(around, std::move(wrapped.handler));
  }
  if (wrapped.transactional != nullptr && !around.empty()) {
    wrapped.transactional =
        std::make_shared<AroundTransactionalHandler>(around, std::move(wrapped.transactional));
  }
  if (wrapped.batch != nullptr && !handlers.batch_middleware().empty()) {
    wrapped.batch =
        std::make_shared<AroundBatchHandler>(handlers.batch_middleware(), std::move(wrapped.batch));
  }
  return wrapped;
}

void start_with(std::span<const AsyncMiddleware> around, AsyncHandler& handler,
                const AsyncCalls::CallPtr& call) {
  AsyncStart start(handler, call);
  start.run(around);
  if (!start.has_begun()) call->complete(nullptr);
}

}  // namespace oncebox::dispatcher
