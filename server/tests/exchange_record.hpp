#pragma once

#include <string>
#include <string_view>

namespace oncebox::server {

/// What a client sent and got.
struct ExchangeRecord {
  std::string_view method;
  std::string_view route;  ///< the pattern, as "/v1/inbox/{key*}"
  std::string_view path;
  std::string_view request_type;  ///< Content-Type
  std::string_view request_body;
  int status = 0;
  std::string_view response_type;
  std::string_view response_body;
};

/// Writes the exchange as a line of JSON to the file that ONCEBOX_RECORD_EXCHANGES names, if it
/// names one: so that the answers of a whole suite can be held against their description. The first
/// of a process begins the file anew.
void record_exchange(const ExchangeRecord& exchange);

}  // namespace oncebox::server
