#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/payload.hpp"

namespace oncebox {

/// What a message's payload was before an operator replaced it. Kept for as long as the message is.
struct PastContent {
  int content_version = 0;  ///< the version that had this payload
  Payload payload = {};
  std::optional<ContentHash> hash = {};
  TimePoint replaced_at{};
  std::string replaced_by = {};  ///< who replaced it; empty: nobody said
  std::string reason = {};       ///< why; empty: nobody said

  friend bool operator==(const PastContent&, const PastContent&) = default;
};

/// How much is kept of one message already.
struct PastContentTotals {
  std::size_t contents = 0;
  std::size_t bytes = 0;
};

/// Throws `conflict` when `payload_bytes` more would be too much: the list of a message's past is
/// read whole. The first is kept whatever its size.
void require_room_for_past_content(const PastContentTotals& kept, std::size_t payload_bytes);

}  // namespace oncebox
