#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "oncebox/endpoint.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/message.hpp"

/// What a service does with its endpoints itself, and a store behind it could only do by sending
/// every message to and fro.
namespace oncebox::http {

/// What an endpoint is to have again: one of the first three is said.
struct ServerResend {
  std::optional<TimePoint> since = {};  ///< all that was sent since
  bool failed = false;                  ///< all that failed for good
  std::optional<MessageKey> key = {};   ///< one message
  std::optional<double> per_second = {};
  bool dry_run = false;  ///< only count
  std::string reason = {};
};

struct ServerResent {
  std::size_t resent = 0;
  std::size_t under_way = 0;
  std::size_t not_wanted = 0;

  friend bool operator==(const ServerResent&, const ServerResent&) = default;
};

/// Has the service send an endpoint again what it missed, and waits for that for ten minutes at
/// least; see `publish::resend_since`. Throws as an `HttpStore` does.
ServerResent resend_to_endpoint(const Options& options, const EndpointName& name,
                                const ServerResend& wanted);

}  // namespace oncebox::http
