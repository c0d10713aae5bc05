#include <fmt/format.h>

#include <exception>

#include "oncebox/error.hpp"
#include "oncebox/publish/delivery.hpp"
#include "oncebox/webhook/webhook_delivery.hpp"
#include "publishing_store.hpp"

namespace oncebox::publish {

namespace {

class ToEndpoints final : public Publisher {
 public:
  explicit ToEndpoints(const PublishingParts& parts) : parts_(parts) {}

  void publish(const ClaimedMessage& delivery, HandlerContext& context) override {
    const std::shared_ptr<PublishingStore> store = parts_.find(context.store());
    const EndpointDirectory::Snapshot known = store->directory.current();
    const KnownEndpoint& endpoint = endpoint_of(*known, delivery.message.topic);
    const ClaimedMessage original = readable(delivery);
    HandlerContext original_context(original, {.stop = context.stop_token(),
                                               .store = context.store(),
                                               .is_last_attempt = context.is_last_attempt()});
    try {
      endpoint.publisher->publish(original, original_context);
    } catch (const NotNow&) {
      throw;
    } catch (const webhook::ReceiverGone& gone) {
      disable(*store, endpoint.record.endpoint.name, gone.what());
      throw;
    } catch (...) {
      if (!context.stop_token().stop_requested()) note_failure(*store, endpoint.record);
      throw;
    }
    const bool failed_here = store->take_failing(endpoint.record.endpoint.name.str());
    if (failed_here || endpoint.record.status.failing_since) {
      note(*store, endpoint.record.endpoint.name, {.kind = EndpointEvent::Kind::worked});
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
    if (const auto& disabled = endpoint.record.status.disabled) {
      throw PermanentFailure("the endpoint is disabled: " + disabled->reason);
    }
    if (endpoint.publisher == nullptr) {
      throw Error(ErrorCode::unavailable, "the endpoint cannot be used: " + endpoint.problem);
    }
    return endpoint;
  }

  [[nodiscard]] static ClaimedMessage readable(const ClaimedMessage& delivery) {
    try {
      return original_of(delivery);
    } catch (const Error& error) {
      throw PermanentFailure(error.what());
    }
  }

  void note_failure(PublishingStore& store, const EndpointRecord& record) const {
    const Endpoint& endpoint = record.endpoint;
    const auto& since = record.status.failing_since;
    if (!since) {
      store.note_failing(endpoint.name.str());
      note(store, endpoint.name, {.kind = EndpointEvent::Kind::failed});
    } else if (endpoint.disable_after > Duration::zero() &&
               parts_.clock.now() - *since >= endpoint.disable_after) {
      disable(store, endpoint.name,
              fmt::format("every delivery has failed since {}", format_rfc3339(*since)));
    }
  }

  void disable(PublishingStore& store, const EndpointName& name, std::string reason) const {
    const std::optional<EndpointNoted> noted =
        note(store, name, {.kind = EndpointEvent::Kind::disabled, .reason = std::move(reason)});
    if (!noted || !noted->changed || !noted->status.disabled) return;
    parts_.logger.log(LogLevel::error,
                      "an endpoint was disabled; once it works again: oncebox endpoints resume",
                      {{"store", store.name},
                       {"endpoint", name.str()},
                       {"reason", noted->status.disabled->reason}});
    if (!parts_.on_disabled) return;
    try {
      parts_.on_disabled({store.name, name, noted->status});
    } catch (const std::exception& failure) {
      parts_.logger.log(LogLevel::error, "nobody could be told that an endpoint was disabled",
                        {{"endpoint", name.str()}, {"reason", failure.what()}});
    }
  }

  /// What became of the delivery stands whether or not this can be noted; the next one says it
  /// again.
  std::optional<EndpointNoted> note(PublishingStore& store, const EndpointName& name,
                                    EndpointEvent event) const noexcept {
    try {
      event.at = parts_.clock.now();
      return store.store.endpoints().note(name, event);
    } catch (const std::exception& failure) {
      parts_.logger.log(LogLevel::warning, "what became of an endpoint could not be noted",
                        {{"endpoint", name.str()}, {"reason", failure.what()}});
      return std::nullopt;
    }
  }

  const PublishingParts& parts_;
};

}  // namespace

Publishers to_endpoints(const PublishingParts& parts) {
  return Publishers(std::make_shared<ToEndpoints>(parts));
}

}  // namespace oncebox::publish
