#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/operate/dead_notices.hpp"

namespace oncebox::server {

/// Where notices of dead messages go. They are logged in any case.
struct NoticeOptions {
  /// Gets a POST for each, signed as Standard Webhooks has it; empty: nobody.
  std::string url = {};
  std::string secret = {};  ///< `whsec_…`, or `whsk_…` for Ed25519
  DeadNoticesOptions when = {};
  Duration timeout = std::chrono::seconds{10};  ///< of one attempt
  /// When nobody answers, or with a status that may pass (a redirection, 408, 409, 425, 429,
  /// 5xx); with pauses between that grow from a second.
  std::size_t attempts = 5;
  std::size_t max_queued = 1'000;  ///< that wait to be sent; more are dropped, and counted

  /// Throws `out_of_range` or `invalid_argument`, naming the option.
  void validate() const;
};

}  // namespace oncebox::server
