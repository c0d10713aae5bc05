#include "oncebox/publish/endpoint_publishers.hpp"

#include <fmt/format.h>

#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/webhook/webhook_delivery.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/queue_json.hpp"

namespace oncebox::publish {

namespace {

constexpr std::string_view kOncebox = "oncebox+";

[[nodiscard]] std::string_view scheme_of(std::string_view url) noexcept {
  const std::size_t end = url.find("://");
  return url.substr(0, end == std::string_view::npos ? 0 : end);
}

[[nodiscard]] webhook::FieldLines lines_of(const Headers& headers) {
  return {headers.begin(), headers.end()};
}

/// What every endpoint of these shares.
struct Sending {
  Sending(const StandardPublisherOptions& options, const Clock& sending_clock)
      : max_retry_after(options.max_retry_after),
        clock(sending_clock),
        client(options.client, sending_clock) {}

  const Duration max_retry_after;
  const Clock& clock;
  webhook::WebhookClient client;
};

class SignedWebhook final : public Publisher {
 public:
  SignedWebhook(std::shared_ptr<Sending> sending, const EndpointTarget& target)
      : sending_(std::move(sending)),
        target_{.url = target.endpoint.url,
                .signer = signer_of(target),
                .fields = lines_of(target.endpoint.headers),
                .timeout = target.endpoint.timeout,
                .allow_private = target.endpoint.allow_private,
                .lane = target.lane} {}

  void publish(const ClaimedMessage& message, HandlerContext& context) override {
    const webhook::WebhookRequest request =
        webhook::request_for(target_, message, sending_->clock.now());
    webhook::require_accepted(sending_->client.post(request, context.stop_token()),
                              sending_->max_retry_after);
  }

 private:
  [[nodiscard]] static webhook::WebhookSigner signer_of(const EndpointTarget& target) {
    webhook::require_webhook_url(target.endpoint.url);
    return webhook::WebhookSigner(target.secrets);
  }

  const std::shared_ptr<Sending> sending_;
  const webhook::WebhookTarget target_;
};

/// Enqueues in another Oncebox, under the key that the message has here. What that rejects or
/// quarantines is a permanent failure, as for an `InboxPublisher`.
class OtherOncebox final : public Publisher {
 public:
  OtherOncebox(std::shared_ptr<Sending> sending, const EndpointTarget& target)
      : sending_(std::move(sending)),
        request_{.url = messages_of(target.endpoint.url),
                 .fields = lines_of(target.endpoint.headers),
                 .allow_private = target.endpoint.allow_private,
                 .timeout = target.endpoint.timeout,
                 .keep_answer = true,
                 .lane = target.lane} {
    webhook::require_webhook_url(request_.url);
    if (!target.secrets.empty()) {
      request_.fields.emplace_back("Authorization", "Bearer " + target.secrets.front());
    }
  }

  void publish(const ClaimedMessage& message, HandlerContext& context) override {
    Message copy = message.message;
    copy.due_at.reset();
    const std::string body = wire::write_messages({&copy, 1});
    webhook::WebhookRequest request = request_;
    request.body = body;
    const webhook::WebhookAnswer answer = sending_->client.post(request, context.stop_token());
    webhook::require_accepted(answer, sending_->max_retry_after);
    require_taken(answer.body);
  }

 private:
  [[nodiscard]] static std::string messages_of(const std::string& url) {
    const std::size_t end = url.find_last_not_of('/') + 1;
    return url.substr(kOncebox.size(), end - kOncebox.size()) + "/messages";
  }

  static void require_taken(const std::string& body) {
    const std::vector<EnqueueOutcome> outcomes = wire::read_enqueued(body);
    if (outcomes.size() != 1) {
      throw Error(ErrorCode::unavailable, "the receiver does not answer as an Oncebox does");
    }
    const EnqueueStatus status = outcomes.front().status;
    if (status == EnqueueStatus::rejected || status == EnqueueStatus::quarantined) {
      throw PermanentFailure("the receiver knows other content under this key");
    }
  }

  const std::shared_ptr<Sending> sending_;
  webhook::WebhookRequest request_;
};

template <class Made>
[[nodiscard]] MakePublisher maker_of(const std::shared_ptr<Sending>& sending) {
  return
      [sending](const EndpointTarget& target) { return std::make_shared<Made>(sending, target); };
}

}  // namespace

EndpointPublishers& EndpointPublishers::on(std::string scheme, MakePublisher make) {
  makers_.insert_or_assign(std::move(scheme), std::move(make));
  return *this;
}

bool EndpointPublishers::knows(std::string_view url) const noexcept {
  return makers_.contains(scheme_of(url));
}

std::shared_ptr<Publisher> EndpointPublishers::make(const EndpointTarget& target) const {
  const auto found = makers_.find(scheme_of(target.endpoint.url));
  if (found == makers_.end()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("nothing here publishes to addresses that begin with {}://",
                            scheme_of(target.endpoint.url)));
  }
  return found->second(target);
}

EndpointPublishers standard_publishers(const StandardPublisherOptions& options,
                                       const Clock& clock) {
  const auto sending = std::make_shared<Sending>(options, clock);
  EndpointPublishers publishers;
  for (const char* const scheme : {"https", "http"}) {
    publishers.on(scheme, maker_of<SignedWebhook>(sending));
    publishers.on(fmt::format("{}{}", kOncebox, scheme), maker_of<OtherOncebox>(sending));
  }
  return publishers;
}

}  // namespace oncebox::publish
