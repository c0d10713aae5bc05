#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/http_message.hpp"

namespace oncebox::server {

/// What a request says before its body.
struct RequestHead {
  Method method = Method::get;
  std::string target = {};  ///< as it came
  bool is_http_1_1 = true;
  bool keep_alive = true;
  Fields fields = {};
  std::optional<std::uint64_t> content_length = {};  ///< nothing: chunked, or no body
  bool is_chunked = false;

  [[nodiscard]] bool has_body() const noexcept {
    return is_chunked || (content_length && *content_length > 0);
  }
};

/// Why a request cannot be understood. What follows it on the connection cannot either.
struct BadRequest {
  int status = 400;
  std::string code = "bad_request";
  std::string detail = {};
};

/// Takes requests out of the bytes of a connection, one after the other. Refuses everything that
/// two parsers could read in two ways (request smuggling): a length in doubt, folded lines, bare CR
/// or LF, spaces before a colon, a host that is there twice.
class RequestParser {
 public:
  struct Limits {
    std::size_t max_header_bytes = 16 << 10;
    std::size_t max_fields = 128;
  };

  explicit RequestParser(const Limits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  struct NeedMore {};
  struct Head {
    RequestHead head;
    std::size_t consumed = 0;
  };
  /// Reads a head from the beginning of the input, which must hold all of it.
  [[nodiscard]] std::variant<NeedMore, Head, BadRequest> read_head(std::string_view input);

  struct Body {
    std::size_t consumed = 0;
    bool complete = false;
  };
  /// Reads on in the body of the last head, and appends what it holds to `body`.
  [[nodiscard]] std::variant<Body, BadRequest> read_body(std::string_view input, std::string& body);

  /// For the body of the last head.
  void set_body_limit(std::size_t bytes);

 private:
  class Impl;
  const Limits limits_;
  std::size_t searched_ = 0;  ///< how much of the input has no end of the head in it
  std::unique_ptr<Impl> impl_;
};

/// The parts of a request target.
struct Target {
  std::string path = {};                         ///< escapes and all
  std::optional<std::string> authority = {};     ///< of a target such as http://host/path
  std::vector<wire::QueryParameter> query = {};  ///< decoded; `+` stands for a space
};

/// Nothing when it cannot be read, or has more than `max_parameters`.
[[nodiscard]] std::optional<Target> read_target(std::string_view target,
                                                std::size_t max_parameters);

}  // namespace oncebox::server
