#pragma once

#include <span>
#include <vector>

#include "oncebox/queue_types.hpp"
#include "queue_table.hpp"

namespace oncebox::sqlite {

/// Takes messages in, inside a transaction and between `begin_call` and `end_call` of the table.
[[nodiscard]] std::vector<EnqueueOutcome> take_in(QueueTable& table,
                                                  std::span<const Message> messages,
                                                  const EnqueueOptions& options, TimePoint now);

}  // namespace oncebox::sqlite
