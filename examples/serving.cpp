// The service inside of a program: webhooks come in, a worker elsewhere handles them over HTTP, and
// what follows goes out to an endpoint. `oncebox serve` is the same with a configuration file.

#include <chrono>
#include <iostream>
#include <semaphore>
#include <stdexcept>
#include <string>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/http/server_endpoints.hpp"
#include "oncebox/http/server_stores.hpp"
#include "oncebox/http_options.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_client.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What stands in the configuration of a server.
server::ServerOptions options_for(const std::string& outside) {
  const server::WebhookOptions payments{.name = "payments",
                                        .scheme = server::WebhookScheme::standard_webhooks,
                                        .secrets = {kSecret},
                                        .topic = "payment.{json:/type}"};
  const server::PublishEndpoint crm{.name = "crm",
                                    .url = outside + "/crm",
                                    .topics = {"order.*"},
                                    .secrets = {std::string("literal:") + kSecret},
                                    .allow_private = true};
  const server::NoticeOptions pager{.url = outside + "/pager", .secret = kSecret};
  return {.listen = server::ListenOptions{.port = 0},  // any free one
          .watchdog = {.interval = 10ms},              // so that the example ends soon
          .notices = pager,
          .publish = {.workers = 2, .endpoints = {crm}},
          .webhooks = {payments}};
}

/// What a payment service sends.
void send_payment(const std::string& url, const std::string& id, const std::string& type) {
  const SystemClock clock;
  webhook::WebhookClient client;
  const std::string body = R"({"type":")" + type + R"("})";
  const webhook::WebhookAnswer answer =
      client.post({.url = url + "/v1/webhooks/payments",
                   .body = body,
                   .fields = webhook::WebhookSigner({kSecret}).fields(id, clock.now(), body),
                   .allow_private = true});
  std::cout << "webhook " << id << ": " << answer.status << '\n';
}

}  // namespace

int main() {
  // The endpoint, and whoever is told of dead messages.
  std::counting_semaphore<> published(0);
  std::counting_semaphore<> paged(0);
  const testing::ScriptedServer outside([&](const testing::ReceivedRequest& request) {
    (request.target == "/crm" ? published : paged).release();
    return testing::Reaction{.status = 202};
  });

  memory::MemoryStore store;
  server::Server server(options_for(outside.url()), {{.name = "shop", .store = store}});
  server.start();
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
  send_payment(url, "evt-1", "received");
  send_payment(url, "evt-1", "received");
  send_payment(url, "evt-2", "refused");

  // From here on nothing knows the store but by the server's address.
  for (const http::ServerStore& known : http::list_server_stores(read_http_options(url)).stores) {
    std::cout << "store " << known.name << " is " << to_string(known.health.status) << '\n';
  }
  http::HttpStore remote({.url = url, .store = "shop"});
  Outbox outbox(remote, {.source = "shop"});
  Handlers handlers;
  handlers.on("payment.received", [&](const ClaimedMessage& claimed, HandlerContext& context) {
    std::cout << "handling " << claimed.message.key << '\n';
    outbox.enqueue({.topic = "order.paid", .payload = "{}"}, context);
  });
  handlers.on("payment.refused", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("there is no such order");
  });
  Dispatcher worker(remote.inbox(), handlers, {.workers = 1});
  worker.start();
  if (!published.try_acquire_for(30s)) throw std::runtime_error("nothing is published");
  std::cout << "the endpoint has been told\n";
  const http::ServerResent again = http::resend_to_endpoint(
      {.url = url, .store = "shop"}, EndpointName("crm"), {.since = kMinTime, .dry_run = true});
  std::cout << again.resent + again.under_way << " message could be sent again\n";
  if (!paged.try_acquire_for(30s)) throw std::runtime_error("nobody is paged");
  std::cout << "somebody was told of the dead message\n";
  worker.stop();
  std::cout << "drained: " << std::boolalpha << server.stop(5s).complete() << '\n';
}
