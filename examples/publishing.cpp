// The outbox goes to endpoints that stand in the store: each message to every endpoint that wants
// it. Here they are functions; a signed webhook is `.url = "https://…"` and a secret.
//
// usage: example_publishing [STORE-URL]

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <vector>

#include "example_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/publish/resend.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

/// What the endpoints were sent.
class Received {
 public:
  void add(const std::string& endpoint, const ClaimedMessage& message) {
    {
      const std::lock_guard lock(mutex_);
      ids_[endpoint].push_back(message.message.key.message_id.str());
    }
    came_.release();
  }
  void wait_for(int messages) {
    for (; messages > 0; --messages) {
      if (!came_.try_acquire_for(30s)) throw std::runtime_error("nothing comes");
    }
  }
  void print() {
    const std::lock_guard lock(mutex_);
    for (auto& [endpoint, ids] : ids_) {
      std::sort(ids.begin(), ids.end());
      std::cout << "  " << endpoint << ':';
      for (const std::string& id : ids) std::cout << ' ' << id;
      std::cout << '\n';
    }
    ids_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> ids_;
  std::counting_semaphore<> came_{0};
};

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);

  // Endpoints come and go while the program runs: by this call, over HTTP, or by the tool.
  publish::save_endpoint(*store, {.name = "crm", .url = "print://crm", .topics = {"order.*"}});
  publish::save_endpoint(*store, {.name = "archive", .url = "print://archive"});

  Received received;
  publish::EndpointPublishers publishers = publish::standard_publishers();
  publishers.on("print", [&](const publish::EndpointTarget& target) {
    const std::string name = target.endpoint.name.str();
    return callable_publisher([&received, name](const ClaimedMessage& message, HandlerContext&) {
      received.add(name, message);
    });
  });
  publish::Publishing publishing(*store, publishers);
  publishing.start();

  Outbox outbox(*store, {.source = "shop"});
  outbox.enqueue({.topic = "order.placed", .payload = "ann 4200", .id = "order-1"});
  outbox.enqueue({.topic = "user.added", .payload = "ann", .id = "user-1"});
  received.wait_for(3);
  std::cout << "sent:\n";
  received.print();

  // The receiver of the archive has lost what it had: it gets all of it again, under the same ids.
  if (!publishing.stop().complete()) throw std::runtime_error("it did not stop");
  const publish::ResendResult again = publish::resend_since(*store, {.endpoint = "archive"});
  std::cout << again.resent << " are sent again\n";
  publish::Publishing next(*store, publishers);
  next.start();
  received.wait_for(2);
  received.print();
}
