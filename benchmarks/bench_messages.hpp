#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/message.hpp"

namespace oncebox::bench {

/// Messages of one topic, with payloads of about 200 bytes and ids in no order, as UUIDs are.
[[nodiscard]] std::vector<Message> make_messages(std::size_t count, std::size_t first = 0);

}  // namespace oncebox::bench
