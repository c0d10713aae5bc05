#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "http/exchange.hpp"
#include "oncebox/wire/problem.hpp"

/// Answers that every part of the service gives in the same way.
namespace oncebox::server {

/// The scopes or limits of the caller's token do not allow a call: 403.
class NotAllowed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller's token was taken back, or allows less, while its request was under way.
class TokenRefused : public std::runtime_error {
 public:
  explicit TokenRefused(Response answer)
      : std::runtime_error("the token no longer allows this"), response(std::move(answer)) {}

  const Response response;
};

[[nodiscard]] Response json_response(std::string body);

/// `application/problem+json` with the request's id; 503 says Retry-After.
[[nodiscard]] Response problem_response(wire::Problem problem, const Request& request);

/// What a client did not get because others hold too much: 503.
inline constexpr std::string_view kNoMemoryDetail =
    "clients hold as much as limits.memory allows; try again later";
[[nodiscard]] wire::Problem no_memory_problem();

/// The answer to a request that failed with this exception: the one border between exceptions and
/// HTTP. What is neither an `Error` nor `NotAllowed` is `internal`, and its text stays out of the
/// answer. Without memory for more it is a 500 without a body.
[[nodiscard]] Response failure_response(std::exception_ptr failure,
                                        const Request& request) noexcept;

/// Sends what `make` returns, or the problem that it throws.
template <class Make>
void answer(Exchange& exchange, Make make) noexcept {
  try {
    exchange.send(make());
  } catch (...) {
    exchange.send(failure_response(std::current_exception(), exchange.request()));
  }
}

}  // namespace oncebox::server
