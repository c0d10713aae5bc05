#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "oncebox/error.hpp"

namespace oncebox::wire {

/// An error on the wire: RFC 9457 problem details,
/// `{"type": "urn:oncebox:error:invalid_argument", "title": …, "status": 400, "code":
/// "invalid_argument", "detail": …, "requestId": …}`. The code is stable; the texts are for people.
struct Problem {
  int status = 500;
  std::string
      code;  ///< an `ErrorCode` as a word, or one of HTTP's own: "unauthorized", "forbidden",
             ///< "method_not_allowed", "too_large", "unsupported_media_type", "bad_request"
  std::string title;
  std::string detail = {};
  std::string request_id = {};
};

/// The one place that says which HTTP status an error has: invalid_argument and out_of_range 400,
/// not_found 404, conflict 409, overloaded and unavailable 503, timeout 504, outcome_unknown 502
/// with its own code, unsupported 501, corrupt and internal 500.
[[nodiscard]] int http_status(ErrorCode code) noexcept;

[[nodiscard]] Problem problem_of(const Error& error);

/// For a client: the error that an answer with this status and body stands for. A body that is no
/// problem, say of a proxy, is judged by the status alone: 429 is `overloaded`, 5xx
/// `outcome_unknown` (a proxy also says 503 when a connection broke after the request was handed
/// on), 404 `not_found`, other 4xx `invalid_argument`.
[[nodiscard]] Error error_of(int status, std::string_view body);

[[nodiscard]] std::string write_problem(const Problem& problem);

}  // namespace oncebox::wire
