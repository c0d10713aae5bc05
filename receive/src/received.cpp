#include "oncebox/receive/received.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/limits.hpp"
#include "oncebox/receive/receiver_options.hpp"

namespace oncebox {

std::string_view to_string(ReceiveStatus status) noexcept {
  switch (status) {
    case ReceiveStatus::processed:
      return "processed";
    case ReceiveStatus::duplicate:
      return "duplicate";
    case ReceiveStatus::replayed:
      return "replayed";
    case ReceiveStatus::missing_key:
      return "missing_key";
    case ReceiveStatus::busy:
      return "busy";
  }
  return "unknown";
}

std::string_view to_string(OriginalState state) noexcept {
  switch (state) {
    case OriginalState::running:
      return "running";
    case OriginalState::completed:
      return "completed";
    case OriginalState::failed:
      return "failed";
  }
  return "unknown";
}

UnrecordedSuccess::UnrecordedSuccess(CompleteRequest completion, std::string_view cause)
    : Error(ErrorCode::outcome_unknown,
            fmt::format("the handler of key {} has succeeded, but that could not be recorded: {}; "
                        "repeat the completion",
                        completion.key.str(), cause)),
      completion_(std::move(completion)) {}

void ReceiverOptions::validate() const {
  require_in_range("length of a key prefix", key_prefix.size(), 0, kMaxNameCodePoints);
  require_in_range("lease of a key", lease, limits::kMinKeyLease, limits::kMaxKeyLease);
  if (retention) {
    require_in_range("retention of a key", *retention, Duration{1}, limits::kMaxRetention);
  }
  require_in_range("time to wait for a running key", wait_at_most, Duration{0}, limits::kMaxDelay);
  require_in_range("number of tries to record a verdict",
                   static_cast<std::size_t>(std::max(verdict_tries.count, 0)), 1, 100);
  require_in_range("pause between tries to record a verdict", verdict_tries.first_pause,
                   Duration{0}, std::chrono::minutes{1});
}

}  // namespace oncebox
