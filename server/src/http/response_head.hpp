#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_message.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

/// How an answer lies on the connection.
struct ResponseFraming {
  enum class Length { known, chunked, until_close, none };

  bool is_http_1_1 = true;
  bool keep_alive = true;
  Length length = Length::known;
  std::size_t body_bytes = 0;
  std::string_view request_id = {};
  std::string_view date = {};
};

/// Writes status line and fields of answers, with those that every answer has: for security, and
/// `Server` without a version.
class ResponseHeads {
 public:
  explicit ResponseHeads(const ServerOptions& options);

  /// Appends the head, up to and with its empty line. A field of the response wins over one of
  /// ours, but for those that say how long the body is.
  void append(std::string& out, const Response& response, const ResponseFraming& framing) const;

 private:
  std::string fixed_;  ///< the fields that never differ
};

[[nodiscard]] std::string_view reason_phrase(int status) noexcept;

}  // namespace oncebox::server
