#include "oncebox/dispatch/handlers.hpp"

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

template <class AnyMiddleware>
void add_to(std::vector<AnyMiddleware>& all, AnyMiddleware middleware) {
  if (!middleware) throw Error(ErrorCode::invalid_argument, "the middleware is empty");
  all.push_back(std::move(middleware));
}

}  // namespace

namespace detail {

void throw_undecodable() { throw PermanentFailure("the payload cannot be decoded"); }

}  // namespace detail

void HandlerOptions::validate() const {
  limits().validate();
  if (retry) retry->validate();
}

void BatchOptions::validate() const {
  require_in_range("max_messages", max_messages, std::size_t{1}, limits::kMaxBatchItems);
  handler.validate();
}

Handlers& Handlers::on(TopicPattern pattern, std::shared_ptr<Handler> handler,
                       const HandlerOptions& options) {
  return add({.pattern = std::move(pattern), .handler = std::move(handler), .options = options});
}

Handlers& Handlers::on(TopicPattern pattern, std::shared_ptr<TransactionalHandler> handler,
                       const HandlerOptions& options) {
  return add(
      {.pattern = std::move(pattern), .transactional = std::move(handler), .options = options});
}

Handlers& Handlers::on_batch(TopicPattern pattern, std::shared_ptr<BatchHandler> handler,
                             const BatchOptions& options) {
  options.validate();
  return add({.pattern = std::move(pattern),
              .batch = std::move(handler),
              .options = options.handler,
              .max_batch = options.max_messages});
}

Handlers& Handlers::on_async(TopicPattern pattern, std::shared_ptr<AsyncHandler> handler,
                             const HandlerOptions& options) {
  return add({.pattern = std::move(pattern), .async = std::move(handler), .options = options});
}

Handlers& Handlers::add(Registration registration) {
  registration.options.validate();
  const std::string& pattern = registration.pattern.str();
  const bool has_one = registration.handler != nullptr || registration.transactional != nullptr ||
                       registration.batch != nullptr || registration.async != nullptr;
  if (!has_one) {
    throw Error(ErrorCode::invalid_argument, "no handler for the topic pattern " + pattern);
  }
  for (const Registration& known : registrations_) {
    if (known.pattern == registration.pattern) {
      throw Error(ErrorCode::conflict, "the topic pattern " + pattern + " has a handler already");
    }
  }
  registrations_.push_back(std::move(registration));
  return *this;
}

Handlers& Handlers::around(Middleware middleware) {
  add_to(middleware_, std::move(middleware));
  return *this;
}

Handlers& Handlers::around_batch(BatchMiddleware middleware) {
  add_to(batch_middleware_, std::move(middleware));
  return *this;
}

Handlers& Handlers::around_async(AsyncMiddleware middleware) {
  add_to(async_middleware_, std::move(middleware));
  return *this;
}

Handlers& Handlers::on_dead(TopicPattern pattern, DeadHandler handler) {
  if (!handler) {
    throw Error(ErrorCode::invalid_argument,
                "nobody to tell of the dead of the topic pattern " + pattern.str());
  }
  for (const DeadRegistration& known : dead_handlers_) {
    if (known.pattern == pattern) {
      throw Error(ErrorCode::conflict, "the topic pattern " + pattern.str() +
                                           " has somebody who hears of its dead already");
    }
  }
  dead_handlers_.push_back({std::move(pattern), std::move(handler)});
  return *this;
}

}  // namespace oncebox
