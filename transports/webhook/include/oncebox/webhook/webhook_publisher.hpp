#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/dispatch/publisher.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/webhook/webhook_client.hpp"

namespace oncebox::webhook {

/// Where the messages of some topics go.
struct WebhookEndpoint {
  std::string url;
  /// Those of `WebhookSigner`, `whsec_…` or `whsk_…`. Each request is signed with all of them, so
  /// that the receiver can change from one to the next.
  std::vector<std::string> secrets;
  TopicPattern topics = "*";
  /// What `webhook_publishers` lets a dispatcher do at once for this endpoint. One that hangs keeps
  /// so many workers, for as long as the client's timeout, and the others are for the rest.
  TopicLimits limits = {.max_concurrency = 2};
  /// Whether its address may be of this machine or of a private network
  /// (`WebhookRequest::allow_private`). A request to one that may not is tried again.
  bool allow_private = false;
};

struct WebhookPublisherOptions {
  std::vector<WebhookEndpoint> endpoints;  ///< for a topic the one that suits it best (R-20)
  WebhookClientOptions client = {};
  /// Of messages whose headers name none.
  std::string content_type = "application/json";
  /// The longest that a receiver may ask us to wait.
  Duration max_retry_after = std::chrono::hours{1};

  /// Throws `invalid_argument` or `out_of_range`, naming the option and never a secret.
  void validate() const;
};

/// Publishes by HTTP POST: the payload as it is, signed as Standard Webhooks says. It is one
/// publisher for all of its endpoints, and knows nothing of their limits: give a dispatcher
/// `webhook_publishers`.
///
/// **What the receiver gets.** `webhook-id`: source and id of the message, `shop:order-1`, the same
/// in every attempt; what is neither letter, digit, `-` nor `_` in them as `%XX`. The headers
/// `contentType`, `traceparent`, `tracestate` and `idempotencyKey` under their HTTP names;
/// `correlationId`, `causationId`, `partitionKey` and `timestamp` as `Oncebox-Correlation-Id` and
/// so on, beside `Oncebox-Topic`, `Oncebox-Source`, `Oncebox-Message-Id` and `Oncebox-Attempt`; in
/// these, `%` and what is not printable ASCII as `%XX`. No other header leaves the house.
///
/// **What its answer means.** 2xx: accepted. 404, 405, 408, 409, 425, 429, 5xx, a redirection or no
/// answer: tried again by the retry policy of the topic, and not before `Retry-After`. Any other
/// 4xx, 410 for example: a permanent failure. Errors name the status, and neither address, payload
/// nor secret.
class WebhookPublisher final : public Publisher {
 public:
  /// The clock is borrowed. Throws as `WebhookPublisherOptions::validate` does.
  explicit WebhookPublisher(const WebhookPublisherOptions& options,
                            const Clock& clock = SystemClock::shared());
  ~WebhookPublisher() override;

  /// Throws `not_found`, and so is tried again, when no endpoint serves the topic.
  void publish(const ClaimedMessage& message, HandlerContext& context) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A `WebhookPublisher` under the topics of each of its endpoints, with their limits, so that an
/// endpoint that hangs does not keep the others from getting theirs. More may be added to it.
///
///     OutboxDispatcher dispatcher(store, webhook_publishers(
///         {.endpoints = {{"https://example.com/hook", {"whsec_…"}, "order.*"},
///                        {"https://example.org/mail", {"whsec_…"}, "mail.*"}}}),
///         {.workers = 8});
///
/// Give the dispatcher more workers than the endpoints that may hang at once take together.
/// The clock is borrowed. Throws as the constructor of `WebhookPublisher` does, and `conflict` when
/// two endpoints have the same topics.
[[nodiscard]] Publishers webhook_publishers(const WebhookPublisherOptions& options,
                                            const Clock& clock = SystemClock::shared());

}  // namespace oncebox::webhook
