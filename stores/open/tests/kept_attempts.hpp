#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "oncebox/queue_operator.hpp"
#include "oncebox/store.hpp"

namespace oncebox {

/// The numbers of the attempts that a store has kept of a message which failed three times and then
/// succeeded.
inline std::vector<int> numbers_of_kept_attempts(Store& store) {
  const MessageKey key{"shop", "kept-attempts"};
  const auto try_once = [&](const Verdict& verdict) {
    const ClaimResult claimed = store.inbox().claim({.owner = OwnerToken::generate()});
    store.inbox().settle({delivery_of(claimed.messages.at(0)), verdict});
    store.inbox_operator().act({&key, 1}, RunNow{}, {});
  };
  store.inbox().enqueue({.key = key, .topic = "order.created"});
  for (int i = 0; i < 3; ++i) try_once(Abandon{.error = "no", .delay = std::chrono::hours{1}});
  try_once(Ack{});
  const std::optional<MessageRecord> record = store.inbox().find(key);
  std::vector<int> numbers;
  for (const Attempt& attempt : record.value().attempts) numbers.push_back(attempt.number);
  return numbers;
}

}  // namespace oncebox
