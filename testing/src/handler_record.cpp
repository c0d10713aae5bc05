#include "oncebox/testing/handler_record.hpp"

#include <algorithm>
#include <iterator>
#include <variant>

#include "oncebox/driver/message_state.hpp"

namespace oncebox::testing {

bool HandlerRecord::Call::succeeded() const noexcept {
  return std::holds_alternative<Ack>(verdict);
}

std::string HandlerRecord::Call::error() const { return error_text(verdict); }

std::vector<HandlerRecord::Call> HandlerRecord::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::vector<HandlerRecord::Call> HandlerRecord::calls_of(const MessageKey& key) const {
  const std::lock_guard lock(mutex_);
  std::vector<Call> found;
  std::ranges::copy_if(calls_, std::back_inserter(found),
                       [&](const Call& call) { return call.claimed.message.key == key; });
  return found;
}

bool HandlerRecord::wait_for(std::size_t calls, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, timeout, [&] { return calls_.size() >= calls; });
}

void HandlerRecord::on_handler_end(const ClaimedMessage& claimed, const Verdict& verdict,
                                   std::chrono::nanoseconds took) noexcept {
  const std::lock_guard lock(mutex_);
  calls_.push_back({claimed, verdict, took});
  ended_.notify_all();
}

}  // namespace oncebox::testing
