#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "oncebox/queue_types.hpp"
#include "queue_table.hpp"

namespace oncebox::sqlite {

/// Throws `invalid_argument` for a payload with more bytes than that.
void require_payload_size(const Payload& payload, std::size_t max_bytes);

/// Takes messages in, inside a transaction and between `begin_call` and `end_call` of the table.
[[nodiscard]] std::vector<EnqueueOutcome> take_in(QueueTable& table,
                                                  std::span<const Message> messages,
                                                  const EnqueueOptions& options, TimePoint now);

}  // namespace oncebox::sqlite
