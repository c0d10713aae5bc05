#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <utility>

#include "http/answers.hpp"
#include "http/exchange.hpp"
#include "http/router.hpp"

namespace oncebox::server {

/// A request without a socket: keeps its answer.
class RecordedExchange final : public Exchange {
 public:
  explicit RecordedExchange(Request request) : Exchange(std::move(request)) {}

  void send(Response response) noexcept override {
    if (!std::exchange(sent_, true)) answer_.set_value(std::move(response));
  }
  std::shared_ptr<ResponseStream> send_stream(Response) override {
    throw std::logic_error("nothing is streamed here");
  }
  void read_body(std::shared_ptr<BodySink>) override {
    throw std::logic_error("nothing is streamed here");
  }
  void on_gone(std::function<void()>) override {}

  /// Throws when none comes.
  [[nodiscard]] Response answer() {
    auto answer = answer_.get_future();
    if (answer.wait_for(std::chrono::seconds{60}) != std::future_status::ready) {
      throw std::runtime_error("the request was not answered");
    }
    return answer.get();
  }

 private:
  bool sent_ = false;
  std::promise<Response> answer_;
};

/// Answers a request as the server does, by the router.
[[nodiscard]] inline Response ask(const Router& router, Request request) {
  auto found = router.find(request.method, request.path);
  auto* match = std::get_if<Match>(&found);
  if (match == nullptr) throw std::runtime_error("there is no such route: " + request.path);
  request.arguments = std::move(match->arguments);
  const auto exchange = std::make_shared<RecordedExchange>(std::move(request));
  try {
    match->route->handler(exchange);
  } catch (...) {
    exchange->send(failure_response(std::current_exception(), exchange->request()));
  }
  return exchange->answer();
}

}  // namespace oncebox::server
