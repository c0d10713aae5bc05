#pragma once

#include <string_view>

#include "oncebox/clock.hpp"

namespace oncebox::app {

/// What a command says of a message that it did not finish: `retry-after 30s` or `not-now 30s`.
struct CommandReply {
  enum class Word { retry_after, not_now };

  Word word;
  Duration delay;
};

/// Throws `invalid_argument` for any other text.
[[nodiscard]] CommandReply parse_reply(std::string_view text);

}  // namespace oncebox::app
