#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/publish/delivery.hpp"
#include "publishing_store.hpp"

namespace oncebox::publish {

namespace {

/// What is held of the copies of messages at a time, and stored in one call.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
/// Of a worker, at storing a chunk. What a slow store has taken by then is done.
constexpr Duration kLongestStoring = std::chrono::seconds{5};
/// And for each MiB, as a line of 256 KiB a second needs it: one message that is too large for a
/// fixed limit would come again for ever. The store's own time-outs hold as well.
constexpr Duration kLongerForMebibyte = std::chrono::seconds{4};

[[nodiscard]] Duration longest_storing(std::size_t bytes) noexcept {
  return kLongestStoring +
         kLongerForMebibyte * static_cast<Duration::rep>(bytes) / (Duration::rep{1} << 20);
}

/// Whether one of the messages is the reason, and not the store.
[[nodiscard]] bool is_of_a_message(const Error& error) noexcept {
  return error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::out_of_range;
}

/// Deliveries that are stored together, of as many messages as there are.
class Chunk {
 public:
  explicit Chunk(PublishingStore& store) : store_(store) {}

  void add(BatchMessage& origin, Message delivery) {
    bytes_ += bytes_of(delivery);
    messages_.push_back(std::move(delivery));
    origins_.push_back(&origin);
    if (bytes_ >= kChunkBytes || messages_.size() == limits::kMaxBatchItems) store();
  }
  /// All deliveries of this message were added.
  void end(BatchMessage& origin) { ended_.push_back(&origin); }

  /// Afterwards the messages that were ended are done.
  void store() {
    try {
      if (!messages_.empty()) enqueue(messages_, bytes_);
    } catch (const Error& error) {
      if (!is_of_a_message(error)) throw;
      store_one_by_one();
    }
    for (BatchMessage* origin : ended_) {
      if (!origin->is_decided()) origin->done();
    }
    messages_.clear();
    origins_.clear();
    ended_.clear();
    bytes_ = 0;
  }

 private:
  void enqueue(std::span<const Message> messages, std::size_t bytes) {
    store_.storing.make(longest_storing(bytes), [&](const CallOptions& call) {
      store_.store.deliveries().enqueue(messages, {}, call);
    });
  }

  void store_one_by_one() {
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      try {
        enqueue({&messages_[i], 1}, bytes_of(messages_[i]));
      } catch (const Error& error) {
        if (!is_of_a_message(error)) throw;
        origins_[i]->failed(std::current_exception());
      }
    }
  }

  PublishingStore& store_;
  std::vector<Message> messages_;
  std::vector<BatchMessage*> origins_;  // one for each
  std::vector<BatchMessage*> ended_;
  std::size_t bytes_ = 0;
};

class FanOut final : public BatchHandler {
 public:
  explicit FanOut(const PublishingParts& parts) : parts_(parts) {}

  void handle(std::span<BatchMessage> batch) override {
    const std::shared_ptr<PublishingStore> store = parts_.find(batch.front().context().store());
    const EndpointDirectory::Snapshot known = store->endpoints(parts_.clock.now());
    Chunk chunk(*store);
    for (BatchMessage& message : batch) fan_out(message, *known, chunk);
    chunk.store();
  }

 private:
  static void fan_out(BatchMessage& origin, const KnownEndpoints& known, Chunk& chunk) {
    const Message& message = origin.message().message;
    for (const auto& [name, endpoint] : known.endpoints) {
      const EndpointRecord& record = *endpoint.record;
      if (record.status.disabled || !record.endpoint.takes(message.topic.str())) continue;
      std::optional<Message> delivery;
      try {
        delivery = delivery_of(message, record.endpoint.name);
      } catch (const Error&) {
        return origin.failed(std::current_exception());
      }
      chunk.add(origin, std::move(*delivery));
    }
    chunk.end(origin);
  }

  const PublishingParts& parts_;
};

}  // namespace

Handlers fan_out(const PublishingParts& parts) {
  Handlers handlers;
  handlers.on_batch("*", std::make_shared<FanOut>(parts));
  return handlers;
}

}  // namespace oncebox::publish
