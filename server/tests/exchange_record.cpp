#include "exchange_record.hpp"

#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include "oncebox/limits.hpp"

namespace oncebox::server {

namespace {

/// Bad requests need not be UTF-8; JSON must.
std::string as_text(std::string_view bytes) { return clip_text(bytes, bytes.size() * 3); }

}  // namespace

void record_exchange(const ExchangeRecord& exchange) {
  static const char* const path = std::getenv("ONCEBOX_RECORD_EXCHANGES");
  if (path == nullptr || *path == '\0') return;
  const boost::json::object line{{"method", exchange.method},
                                 {"route", exchange.route},
                                 {"path", exchange.path},
                                 {"requestType", exchange.request_type},
                                 {"requestBody", as_text(exchange.request_body)},
                                 {"status", exchange.status},
                                 {"responseType", exchange.response_type},
                                 {"responseBody", exchange.response_body}};
  const std::string text = boost::json::serialize(line) + "\n";
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
}

}  // namespace oncebox::server
