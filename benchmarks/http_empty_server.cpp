// The server without anything behind it: answers a POST with as many bytes as a stored message
// gets, at once. What the others are measured against. Prints its port, and serves until it is
// killed.

#include <signal.h>

#include <iostream>
#include <string>

#include "http/answers.hpp"
#include "http/authenticator.hpp"
#include "http/http_server.hpp"
#include "http/router.hpp"

namespace oncebox::server {
namespace {

class SilentObserver final : public HttpObserver {
 public:
  void on_request(const Answered&) noexcept override {}
  void on_connections(std::ptrdiff_t) noexcept override {}
  void on_refused_connection() noexcept override {}
};

void serve() {
  ServerOptions options;
  options.listen.port = 0;
  options.access_log = AccessLog::off;
  Router router;
  router.add({.method = Method::post,
              .pattern = "/v1/messages",
              .scope = Scope::produce,
              .handler = [](const ExchangePtr& exchange) {
                exchange->send(json_response(
                    R"({"source":"stripe","messageId":"evt-123456-1","status":"Accepted"})"));
              }});
  NullLogger logger;
  SilentObserver observer;
  const Authenticator authenticator(options.auth, logger);
  HttpServer server(options, router, authenticator, logger, observer);
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

int main() { oncebox::server::serve(); }
