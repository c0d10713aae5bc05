#include "oncebox/webhook/webhook_publisher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/webhook/webhook_delivery.hpp"
#include "printable.hpp"

namespace oncebox::webhook {

void WebhookPublisherOptions::validate() const {
  if (endpoints.empty()) throw Error(ErrorCode::invalid_argument, "endpoints: there is none");
  for (const WebhookEndpoint& endpoint : endpoints) {
    require_webhook_url(endpoint.url);
    (void)WebhookSigner(endpoint.secrets);
    endpoint.limits.validate();
  }
  client.validate();
  if (content_type.empty() || !is_printable(content_type)) {
    throw Error(ErrorCode::invalid_argument, "content_type: it is empty, or not printable ASCII");
  }
  require_in_range("max_retry_after", max_retry_after, Duration{1}, limits::kMaxDelay);
}

class WebhookPublisher::Impl {
 public:
  Impl(const WebhookPublisherOptions& options, const Clock& clock)
      : max_retry_after_(options.max_retry_after), clock_(clock), client_(options.client, clock) {
    options.validate();
    for (const WebhookEndpoint& endpoint : options.endpoints) {
      patterns_.push_back(endpoint.topics);
      targets_.push_back({.url = endpoint.url,
                          .signer = WebhookSigner(endpoint.secrets),
                          .content_type = options.content_type,
                          .allow_private = endpoint.allow_private});
    }
  }

  void publish(const ClaimedMessage& claimed, const std::stop_token& stop) {
    const WebhookRequest request =
        request_for(target_of(claimed.message.topic), claimed, clock_.now());
    require_accepted(client_.post(request, stop), max_retry_after_);
  }

 private:
  [[nodiscard]] const WebhookTarget& target_of(const Topic& topic) const {
    const auto place = best_match(patterns_, topic.str());
    if (!place) {
      throw Error(ErrorCode::not_found, "no endpoint of the webhooks serves topic " + topic.str());
    }
    return targets_[*place];
  }

  const Duration max_retry_after_;
  const Clock& clock_;
  std::vector<TopicPattern> patterns_;
  std::vector<WebhookTarget> targets_;  // one for each pattern
  WebhookClient client_;
};

WebhookPublisher::WebhookPublisher(const WebhookPublisherOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
WebhookPublisher::~WebhookPublisher() = default;

void WebhookPublisher::publish(const ClaimedMessage& message, HandlerContext& context) {
  impl_->publish(message, context.stop_token());
}

Publishers webhook_publishers(const WebhookPublisherOptions& options, const Clock& clock) {
  const auto publisher = std::make_shared<WebhookPublisher>(options, clock);
  Publishers publishers;
  for (const WebhookEndpoint& endpoint : options.endpoints) {
    publishers.on(
        endpoint.topics, publisher,
        {.max_concurrency = endpoint.limits.max_concurrency, .rate = endpoint.limits.rate});
  }
  return publishers;
}

}  // namespace oncebox::webhook
