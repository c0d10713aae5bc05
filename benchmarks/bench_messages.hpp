#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/message.hpp"
#include "oncebox/queue_store.hpp"

namespace oncebox::bench {

/// Messages of one topic, with payloads of about 200 bytes and ids in no order, as UUIDs are.
[[nodiscard]] std::vector<Message> make_messages(std::size_t count, std::size_t first = 0);

/// Claims up to `batch` messages in one call, acknowledges them in another, and answers how many
/// they were.
std::size_t claim_and_acknowledge(QueueStore& queue, const OwnerToken& owner, std::size_t batch);

}  // namespace oncebox::bench
