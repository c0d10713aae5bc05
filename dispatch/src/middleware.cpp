#include "middleware.hpp"

#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace oncebox::dispatcher {

namespace {

void run(std::span<const Middleware> around, HandlerContext& context, const NextHandler& handler) {
  if (around.empty()) return handler();
  const auto next = [&] { run(around.subspan(1), context, handler); };
  around.front()(context.message(), context, std::ref(next));  // a reference needs no memory
}

class AroundHandler final : public Handler {
 public:
  AroundHandler(std::vector<Middleware> around, std::shared_ptr<Handler> handler)
      : around_(std::move(around)), handler_(std::move(handler)) {}
  void handle(const ClaimedMessage& message, HandlerContext& context) override {
    const auto call = [&] { handler_->handle(message, context); };
    run(around_, context, std::ref(call));
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
    run(around_, context, std::ref(call));
  }

 private:
  const std::vector<Middleware> around_;
  const std::shared_ptr<TransactionalHandler> handler_;
};

}  // namespace

Handlers::Registration with_middleware(const Handlers::Registration& registration,
                                       const std::vector<Middleware>& middleware) {
  Handlers::Registration wrapped = registration;
  if (middleware.empty()) return wrapped;
  if (wrapped.handler != nullptr) {
    wrapped.handler = std::make_shared<AroundHandler>(middleware, std::move(wrapped.handler));
  }
  if (wrapped.transactional != nullptr) {
    wrapped.transactional =
        std::make_shared<AroundTransactionalHandler>(middleware, std::move(wrapped.transactional));
  }
  return wrapped;
}

}  // namespace oncebox::dispatcher
