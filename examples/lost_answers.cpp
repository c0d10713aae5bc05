// Testing a program against a network that loses answers: a proxy stands between it and the
// service, and cuts the line when the service has done what it was asked for.

#include <atomic>
#include <iostream>
#include <memory>
#include <string>

#include "oncebox/http/http_store.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/testing/tcp_proxy.hpp"

namespace {

using namespace oncebox;

/// Forwards everything, but loses an answer when it is told to.
class LossyLine final : public testing::TcpProxy::Conversation {
 public:
  explicit LossyLine(std::atomic<bool>& loses_next) : loses_next_(loses_next) {}

  void on_client_bytes(std::string_view bytes, testing::TcpProxy::Link& link) override {
    link.send_to_server(bytes);
  }
  void on_server_bytes(std::string_view bytes, testing::TcpProxy::Link& link) override {
    if (loses_next_.exchange(false)) {
      link.cut();
    } else {
      link.send_to_client(bytes);
    }
  }

 private:
  std::atomic<bool>& loses_next_;
};

}  // namespace

int main() {
  memory::MemoryStore store;
  server::Server server({.listen = {.port = 0}}, {{.name = "shop", .store = store}});
  server.start();
  std::atomic<bool> loses_next = false;
  const testing::TcpProxy proxy(server.port(),
                                [&] { return std::make_unique<LossyLine>(loses_next); });
  const std::string url = "http://127.0.0.1:" + std::to_string(proxy.port());

  // The code under test: it repeats what may have been lost, which is safe.
  const auto take_in = [](QueueStore& queue, const char* id) {
    const Message message{.key = {"shop", id}, .topic = "order.paid"};
    while (true) {
      try {
        const EnqueueOutcome outcome = queue.enqueue(message);
        std::cout << id << ": " << to_string(outcome.status) << '\n';
        return;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::outcome_unknown) throw;
        std::cout << id << ": the answer was lost\n";
      }
    }
  };
  http::HttpStore impatient({.url = url, .max_retries = 0});
  loses_next = true;
  take_in(impatient.inbox(), "order-1");
  take_in(impatient.inbox(), "order-2");

  // By itself the client repeats what can be repeated.
  http::HttpStore patient({.url = url});
  loses_next = true;
  take_in(patient.inbox(), "order-3");
  std::cout << store.inbox_operator().count({}) << " messages are there\n";
}
