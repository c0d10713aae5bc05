#pragma once

#include "oncebox/clock.hpp"
#include "oncebox/message.hpp"

namespace oncebox::detail {

/// Sets the headers that a message of an outbox goes out with: `messageId` and `timestamp`, and
/// `partitionKey` when there is one. Those that the sender has set stay. Throws `invalid_argument`
/// when there are too many headers.
void stamp_outgoing(Message& message, TimePoint now);

}  // namespace oncebox::detail
