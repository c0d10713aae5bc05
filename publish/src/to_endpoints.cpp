#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "endpoint_health.hpp"
#include "oncebox/error.hpp"
#include "oncebox/publish/delivery.hpp"
#include "publishing_store.hpp"

namespace oncebox::publish {

namespace {

/// What a publisher completes: what became of its delivery is told to the dispatcher, and how the
/// endpoint works to those who watch that. It has the message of the outbox, as long as the
/// publisher needs it, and keeps neither store nor publisher: it may end on a thread of either.
class DeliveryUnderWay final : public detail::AsyncCall {
 public:
  DeliveryUnderWay(ClaimedMessage original, std::string store,
                   std::shared_ptr<const EndpointRecord> endpoint,
                   std::shared_ptr<EndpointHealth> health, Completion completion)
      : original_(std::move(original)),
        store_(std::move(store)),
        endpoint_(std::move(endpoint)),
        health_(std::move(health)),
        completion_(std::move(completion)),
        context_(original_, {.stop = completion_.context().stop_token(),
                             .store = completion_.context().store(),
                             .is_last_attempt = completion_.context().is_last_attempt()}) {}

  [[nodiscard]] const ClaimedMessage& message() const noexcept { return original_; }
  [[nodiscard]] const HandlerContext& context() const noexcept override { return context_; }

  void complete(std::exception_ptr failure) noexcept override {
    if (is_over_.exchange(true)) return;
    if (!failure) {
      health_->on_worked(store_, *endpoint_);
      return completion_.done();
    }
    if (!context_.stop_token().stop_requested()) {
      health_->on_failed(store_, *endpoint_, failure);
    }
    completion_.failed(std::move(failure));
  }

  /// The dispatcher hears of it when this ends.
  void drop() noexcept override {}

 private:
  const ClaimedMessage original_;
  const std::string store_;
  const std::shared_ptr<const EndpointRecord> endpoint_;
  const std::shared_ptr<EndpointHealth> health_;
  Completion completion_;
  const HandlerContext context_;
  std::atomic<bool> is_over_ = false;
};

class ToEndpoints final : public AsyncPublisher {
 public:
  explicit ToEndpoints(const PublishingParts& parts)
      : parts_(parts), health_(std::make_shared<EndpointHealth>(parts)) {}
  // Publishers may complete later, when neither stores nor logger are there any more.
  ~ToEndpoints() override { health_->close(); }
  ToEndpoints(const ToEndpoints&) = delete;
  ToEndpoints& operator=(const ToEndpoints&) = delete;

  void start(const ClaimedMessage& delivery, Completion completion) override {
    const std::shared_ptr<PublishingStore> store = parts_.find(completion.context().store());
    const EndpointHealth::Moment looked_at = health_->now();
    const EndpointDirectory::Snapshot known = store->endpoints(parts_.clock.now());
    const KnownEndpoint& endpoint = endpoint_of(*known, delivery.message.topic);
    // Who tests an endpoint wants to know how it is now.
    if (!is_test(delivery.message)) {
      health_->require_ready(store->name, *endpoint.record, looked_at);
    }
    const auto under_way = std::make_shared<DeliveryUnderWay>(
        readable(delivery), store->name, endpoint.record, health_, std::move(completion));
    try {
      publisher_of(endpoint).start(under_way->message(), Completion(under_way));
    } catch (...) {
      under_way->complete(std::current_exception());
    }
  }

 private:
  [[nodiscard]] static const KnownEndpoint& endpoint_of(const KnownEndpoints& known,
                                                        const Topic& topic) {
    const auto found = known.endpoints.find(topic.str());
    if (found == known.endpoints.end()) {
      throw PermanentFailure("there is no endpoint of this name any more");
    }
    const KnownEndpoint& endpoint = found->second;
    if (const auto& disabled = endpoint.record->status.disabled) {
      throw PermanentFailure("the endpoint is disabled: " + disabled->reason);
    }
    return endpoint;
  }

  [[nodiscard]] static AsyncPublisher& publisher_of(const KnownEndpoint& endpoint) {
    if (endpoint.publisher != nullptr) return *endpoint.publisher;
    throw Error(ErrorCode::unavailable, "the endpoint cannot be used: " + endpoint.problem);
  }

  [[nodiscard]] static ClaimedMessage readable(const ClaimedMessage& delivery) {
    try {
      return original_of(delivery);
    } catch (const Error& error) {
      throw PermanentFailure(error.what());
    }
  }

  const PublishingParts& parts_;
  const std::shared_ptr<EndpointHealth> health_;
};

}  // namespace

Publishers to_endpoints(const PublishingParts& parts, const std::vector<AsyncMiddleware>& around) {
  Publishers publishers;
  for (const AsyncMiddleware& middleware : around) publishers.around_async(middleware);
  publishers.on_async("*", std::make_shared<ToEndpoints>(parts));
  return publishers;
}

}  // namespace oncebox::publish
