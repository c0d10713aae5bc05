#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <utility>

#include "http/answers.hpp"
#include "http/exchange.hpp"

namespace oncebox::server {

/// A larger body is not parsed, hashed or searched on a thread of the sockets: that would hold up
/// every other connection of the thread.
inline constexpr std::size_t kSmallBodyBytes = std::size_t{64} << 10;

/// Runs `call()`, which reads the body of the request and waits for nothing: at once when the body
/// is small, and otherwise on a thread of `calls` (a `CallLane` or a `CallPool`). There a problem
/// that it throws is sent; here the caller gets it. Throws as `CallLane::submit` does.
template <class Calls, std::invocable Call>
void call_with_body(Calls& calls, const ExchangePtr& exchange, Call call) {
  if (exchange->request().body.size() <= kSmallBodyBytes) return call();
  calls.submit(exchange->request(), [exchange, call = std::move(call)]() mutable noexcept {
    try {
      call();
    } catch (...) {
      exchange->send(failure_response(std::current_exception(), exchange->request()));
    }
  });
}

}  // namespace oncebox::server
