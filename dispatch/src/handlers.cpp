#include "oncebox/dispatch/handlers.hpp"

#include <algorithm>
#include <limits>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace detail {

void throw_undecodable() { throw PermanentFailure("the payload cannot be decoded"); }

}  // namespace detail

void TopicLimits::validate() const {
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  if (max_concurrency) require_in_range("max_concurrency", *max_concurrency, 1, kMost);
  if (!rate) return;
  // Their product with the period in milliseconds must fit into 64 bits.
  constexpr std::size_t kMostCalls = 100'000'000;
  require_in_range("count of a rate", rate->count, 1, kMostCalls);
  require_in_range("period of a rate", rate->per, Duration{1}, limits::kMaxDelay);
  if (rate->burst) require_in_range("burst of a rate", *rate->burst, 1, kMostCalls);
}

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
