#include "oncebox/past_content.hpp"

#include <fmt/format.h>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

void require_room_for_past_content(const PastContentTotals& kept, std::size_t payload_bytes) {
  if (kept.contents == 0) return;
  const bool fits = kept.contents < limits::kMaxPastContents &&
                    kept.bytes + payload_bytes <= limits::kMaxPastContentBytes;
  if (fits) return;
  throw Error(ErrorCode::conflict,
              fmt::format("a message keeps at most {} earlier payloads of {} bytes together; this "
                          "one cannot be edited again",
                          limits::kMaxPastContents, limits::kMaxPastContentBytes));
}

}  // namespace oncebox
