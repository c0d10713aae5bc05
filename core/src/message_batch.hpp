#pragma once

#include <span>

#include "oncebox/message.hpp"

namespace oncebox {

/// Throws `out_of_range` unless a call can take these messages, whoever stores them.
void require_valid_batch(std::span<const Message> messages);

}  // namespace oncebox
