#include <vector>

#include "oncebox/limits.hpp"
#include "oncebox/publish/delivery.hpp"
#include "publishing_store.hpp"

namespace oncebox::publish {

namespace {

/// What is held of the copies of one message at a time.
constexpr std::size_t kBatchBytes = std::size_t{8} << 20;

class FanOut final : public Publisher {
 public:
  explicit FanOut(const PublishingParts& parts) : parts_(parts) {}

  void publish(const ClaimedMessage& claimed, HandlerContext& context) override {
    const std::shared_ptr<PublishingStore> store = parts_.find(context.store());
    const EndpointDirectory::Snapshot known = store->directory.current(parts_.clock.now());
    Batch batch{store->store.deliveries()};
    for (const auto& [name, endpoint] : known->endpoints) {
      const EndpointRecord& record = *endpoint.record;
      if (record.status.disabled || !record.endpoint.takes(claimed.message.topic.str())) continue;
      batch.add(delivery_of(claimed.message, record.endpoint.name));
    }
    batch.store();
  }

 private:
  struct Batch {
    QueueStore& deliveries;
    std::vector<Message> messages = {};
    std::size_t bytes = 0;

    void add(Message message) {
      bytes += bytes_of(message);
      messages.push_back(std::move(message));
      if (bytes >= kBatchBytes || messages.size() == limits::kMaxBatchItems) store();
    }
    void store() {
      if (!messages.empty()) deliveries.enqueue(messages);
      messages.clear();
      bytes = 0;
    }
  };

  const PublishingParts& parts_;
};

}  // namespace

Publishers fan_out(const PublishingParts& parts) {
  return Publishers(std::make_shared<FanOut>(parts));
}

}  // namespace oncebox::publish
