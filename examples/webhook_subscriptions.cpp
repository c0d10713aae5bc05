// Webhooks to addresses that customers have chosen: a publisher of one's own looks the address up,
// and forgets a customer whose receiver is gone. What everybody may know goes to one more address.

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_delivery.hpp"
#include "oncebox/webhook/webhook_publisher.hpp"

namespace {

using namespace oncebox;

constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Who wants to hear of their orders, and where.
class Subscriptions {
 public:
  void add(const std::string& customer, const std::string& url) {
    const std::lock_guard lock(mutex_);
    urls_[customer] = url;
  }
  void remove(const std::string& customer) {
    const std::lock_guard lock(mutex_);
    urls_.erase(customer);
  }
  [[nodiscard]] std::string url_of(const std::string& customer) const {
    const std::lock_guard lock(mutex_);
    const auto found = urls_.find(customer);
    return found == urls_.end() ? "" : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> urls_;
};

/// One for all customers. The partition key of a message says whose it is.
class SubscriptionPublisher final : public Publisher {
 public:
  SubscriptionPublisher(Subscriptions& subscriptions, webhook::WebhookClient& client)
      : subscriptions_(subscriptions), client_(client) {}

  void publish(const ClaimedMessage& message, HandlerContext& context) override {
    const std::string customer = message.message.partition_key.value().str();
    const std::string url = subscriptions_.url_of(customer);
    if (url.empty()) return;  // nobody wants it
    const webhook::WebhookTarget target{
        .url = url, .signer = webhook::WebhookSigner({kSecret}), .allow_private = true};
    const webhook::WebhookRequest request =
        webhook::request_for(target, message, SystemClock::current());
    try {
      webhook::require_accepted(client_.post(request, context.stop_token()), std::chrono::hours{1});
    } catch (const webhook::ReceiverGone&) {
      subscriptions_.remove(customer);
      throw;
    }
  }

 private:
  Subscriptions& subscriptions_;
  webhook::WebhookClient& client_;
};

}  // namespace

int main() {
  const testing::ScriptedServer receivers([](const testing::ReceivedRequest& request) {
    const int status = request.target == "/bob" ? 410 : 202;
    std::cout << request.target << " gets " << request.fields.at("oncebox-topic") << ": " << status
              << '\n';
    return testing::Reaction{.status = status};
  });
  Subscriptions subscriptions;
  subscriptions.add("ann", receivers.url() + "/ann");
  subscriptions.add("bob", receivers.url() + "/bob");

  webhook::WebhookClient client({.timeout = std::chrono::seconds{10}});
  const webhook::WebhookPublisherOptions news{
      .endpoints = {
          {.url = receivers.url() + "/news", .secrets = {kSecret}, .allow_private = true}}};
  Publishers publishers;
  publishers.on("order.*", std::make_shared<SubscriptionPublisher>(subscriptions, client));
  publishers.on("news.*", std::make_shared<webhook::WebhookPublisher>(news));

  memory::MemoryStore store;
  Outbox outbox(store, {.source = "shop"});
  outbox.enqueue({.topic = "order.paid", .id = "1", .partition_key = "ann"});
  outbox.enqueue({.topic = "order.paid", .id = "2", .partition_key = "bob"});
  outbox.enqueue({.topic = "news.added", .id = "3"});
  OutboxDispatcher dispatcher(store, publishers, {.workers = 1});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) return 1;
  for (const char* id : {"1", "2", "3"}) {
    std::cout << id << " is " << to_string(outbox.find(id)->status) << '\n';
  }
  // The next one is for nobody.
  outbox.enqueue({.topic = "order.paid", .id = "4", .partition_key = "bob"});
  if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) return 1;
  std::cout << "4 is " << to_string(outbox.find("4")->status) << '\n';
}
