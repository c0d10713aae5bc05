#include "oncebox/dispatch/handlers.hpp"

#include "oncebox/error.hpp"

namespace oncebox {

namespace detail {

void throw_undecodable() { throw PermanentFailure("the payload cannot be decoded"); }

}  // namespace detail

Handlers& Handlers::on(TopicPattern pattern, std::shared_ptr<Handler> handler, TopicLimits limits) {
  return add({std::move(pattern), std::move(handler), nullptr, limits});
}

Handlers& Handlers::on(TopicPattern pattern, std::shared_ptr<TransactionalHandler> handler,
                       TopicLimits limits) {
  return add({std::move(pattern), nullptr, std::move(handler), limits});
}

Handlers& Handlers::add(Registration registration) {
  registration.limits.validate();
  const std::string& pattern = registration.pattern.str();
  if (registration.handler == nullptr && registration.transactional == nullptr) {
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

}  // namespace oncebox
