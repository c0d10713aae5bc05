#include "dead_handlers.hpp"

#include "oncebox/engine/exception_text.hpp"
#include "oncebox/internal/message_line.hpp"

namespace oncebox::dispatcher {

DeadHandlers::DeadHandlers(const Handlers& handlers, Logger& logger) : logger_(logger) {
  for (const Handlers::DeadRegistration& registration : handlers.dead_handlers()) {
    patterns_.push_back(registration.pattern);
    handlers_.push_back(registration.handler);
  }
}

void DeadHandlers::tell(const ClaimedMessage& claimed, std::string_view error,
                        std::string_view store) const noexcept {
  const auto found = best_match(patterns_, claimed.message.topic.str());
  if (!found) return;
  try {
    handlers_[*found]({.claimed = claimed, .error = error, .store = store});
  } catch (...) {
    const std::string_view text = "handler of dead messages failed";
    detail::write_line(logger_, {LogLevel::error, text, store, claimed.message},
                       {{"reason", detail::current_exception_text()}});
  }
}

}  // namespace oncebox::dispatcher
