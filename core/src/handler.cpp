#include "oncebox/handler.hpp"

#include <algorithm>

#include "oncebox/limits.hpp"

namespace oncebox {

RetryAfter::RetryAfter(Duration delay, const std::string& reason)
    : std::runtime_error(reason), delay_(std::clamp(delay, Duration{1}, limits::kMaxDelay)) {}

NotNow::NotNow(Duration delay, const std::string& reason)
    : std::runtime_error(reason), delay_(std::clamp(delay, Duration{1}, limits::kMaxDelay)) {}

}  // namespace oncebox
