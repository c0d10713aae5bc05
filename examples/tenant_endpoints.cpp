// The outboxes of all tenants go to the endpoints of each: one pool of workers for the stores of a
// set, as they come and go.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/fleet/outbox_router.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/publishing.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

/// What has come to the receivers.
class Received {
 public:
  void add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    came_.release();
  }
  void wait_for(int lines) {
    for (; lines > 0; --lines) {
      if (!came_.try_acquire_for(30s)) throw std::runtime_error("nothing comes");
    }
  }
  void print() {
    const std::lock_guard lock(mutex_);
    std::sort(lines_.begin(), lines_.end());
    for (const std::string& line : lines_) std::cout << line << '\n';
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::counting_semaphore<> came_{0};
};

/// Hands messages to one receiver, over whatever it understands. A transport that answers later
/// keeps the completion until then; no thread waits for it.
class ReceiverPublisher final : public AsyncPublisher {
 public:
  ReceiverPublisher(std::string url, Received& received)
      : url_(std::move(url)), received_(received) {}

  void start(const ClaimedMessage& message, Completion completion) override {
    const std::string& id = message.message.key.message_id.str();
    const std::string store(completion.context().store());
    completion.done();
    received_.add(store + ": " + id + " to " + url_);
  }

 private:
  std::string url_;
  Received& received_;
};

}  // namespace

int main() {
  StoreSet stores({{"acme", "memory:"}, {"zenith", "memory:"}},
                  [](const StoreLocation& location) { return open_store(location.url); });
  // Each tenant says where its messages go.
  publish::save_endpoint(stores.find("acme")->store(), {.name = "crm", .url = "print://crm.acme"});
  for (const std::string name : {"books", "mail"}) {
    publish::save_endpoint(stores.find("zenith")->store(),
                           {.name = name, .url = "print://" + name + ".zenith"});
  }

  Received received;
  publish::EndpointPublishers publishers;
  publishers.on_async("print", [&](const publish::EndpointTarget& target) {
    return std::make_shared<ReceiverPublisher>(target.endpoint.url, received);
  });
  publish::SetPublishing publishing(stores, publishers);
  publishing.start();

  OutboxRouter outboxes(stores);
  for (const char* tenant : {"acme", "zenith"}) {
    outboxes.route(tenant)->enqueue({.topic = "order.placed", .id = "order-1"});
  }
  received.wait_for(3);
  publishing.stop();
  received.print();
}
