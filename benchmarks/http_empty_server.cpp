// The server without anything behind it: answers a POST with as many bytes as a stored message
// gets, at once. With the name of a file, it stores the body there first, through SQLite directly,
// under a number instead of a key that it would have to read. What the others are measured
// against. Prints its port, and serves until it is killed.
//
// usage: http_empty_server [FILE]

#include <signal.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "http/answers.hpp"
#include "http/authenticator.hpp"
#include "http/http_server.hpp"
#include "http/router.hpp"
#include "oncebox/group_commit.hpp"
#include "raw_sqlite.hpp"

namespace oncebox::server {
namespace {

class SilentObserver final : public HttpObserver {
 public:
  void on_request(const Answered&) noexcept override {}
  void on_connections(std::ptrdiff_t) noexcept override {}
  void on_refused_connection() noexcept override {}
  void on_ended_connection(std::string_view) noexcept override {}
};

constexpr const char* kAnswer =
    R"({"source":"stripe","messageId":"evt-123456-1","status":"Accepted"})";

/// Bodies of many connections share commits.
class RawIntake {
 public:
  explicit RawIntake(const std::string& file) : raw_(file) {}

  void store(const ExchangePtr& exchange) {
    messages_.submit_then({.key = {"stripe", "evt-" + std::to_string(++last_)},
                           .topic = "payment.received",
                           .payload = exchange->request().body},
                          [exchange](const auto&) { exchange->send(json_response(kAnswer)); });
  }

 private:
  bench::RawSqlite raw_;
  std::atomic<std::size_t> last_ = 0;
  GroupCommit<Message, int> messages_{[this](std::span<const Message> messages) {
    raw_.enqueue(messages);
    return std::vector<int>(messages.size());
  }};
};

void serve(const char* file) {
  const auto intake = file != nullptr ? std::make_unique<RawIntake>(file) : nullptr;
  ServerOptions options;
  options.listen.port = 0;
  options.access_log = AccessLog::off;
  Router router;
  router.add({.method = Method::post,
              .pattern = "/v1/messages",
              .scope = Scope::produce,
              .handler = [&](const ExchangePtr& exchange) {
                if (intake) return intake->store(exchange);
                exchange->send(json_response(kAnswer));
              }});
  NullLogger logger;
  SilentObserver observer;
  const Authenticator authenticator(options.auth, logger);
  HttpServer server(options, router, authenticator, logger, observer, SystemClock::shared());
  server.start();
  std::cout << server.port() << std::endl;

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  int received = 0;
  sigwait(&signals, &received);
}

}  // namespace
}  // namespace oncebox::server

int main(int argc, char** argv) { oncebox::server::serve(argc > 1 ? argv[1] : nullptr); }
