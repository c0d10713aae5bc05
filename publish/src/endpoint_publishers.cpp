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

  /// Throws what a publisher fails by, unless the answer is one of acceptance.
  using Require = void (*)(const webhook::WebhookAnswer& answer, Duration max_retry_after);

  /// Sends the request, and completes by the answer. A body that nobody else keeps is kept here.
  void send(webhook::WebhookRequest request, Completion completion, Require require,
            std::string body = {}) {
    struct Pending {
      Completion completion;
      const std::string body;
    };
    const std::stop_token stop = completion.context().stop_token();
    // Shared, because a function has to be copyable.
    const auto pending = std::make_shared<Pending>(std::move(completion), std::move(body));
    if (!pending->body.empty()) request.body = pending->body;
    const auto on_answer = [pending, require,
                            longest = max_retry_after](const webhook::WebhookAnswer& answer) {
      try {
        require(answer, longest);
      } catch (...) {
        return pending->completion.failed(std::current_exception());
      }
      pending->completion.done();
    };
    client.send(std::move(request), on_answer, stop);
  }

  const Duration max_retry_after;
  const Clock& clock;
  webhook::WebhookClient client;
};

class SignedWebhook final : public AsyncPublisher {
 public:
  SignedWebhook(std::shared_ptr<Sending> sending, const EndpointTarget& target)
      : sending_(std::move(sending)),
        target_{.url = target.endpoint.url,
                .signer = signer_of(target),
                .fields = lines_of(target.endpoint.headers),
                .timeout = target.endpoint.timeout,
                .allow_private = target.endpoint.allow_private,
                .lane = target.lane,
                .group = target.group} {}

  void start(const ClaimedMessage& message, Completion completion) override {
    sending_->send(webhook::request_for(target_, message, sending_->clock.now()),
                   std::move(completion), webhook::require_accepted);
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
class OtherOncebox final : public AsyncPublisher {
 public:
  OtherOncebox(std::shared_ptr<Sending> sending, const EndpointTarget& target)
      : sending_(std::move(sending)),
        request_{.url = messages_of(target.endpoint.url),
                 .fields = lines_of(target.endpoint.headers),
                 .allow_private = target.endpoint.allow_private,
                 .timeout = target.endpoint.timeout,
                 .keep_answer = true,
                 .lane = target.lane,
                 .group = target.group} {
    webhook::require_webhook_url(request_.url);
    if (!target.secrets.empty()) {
      request_.fields.emplace_back("Authorization", "Bearer " + target.secrets.front());
    }
  }

  void start(const ClaimedMessage& message, Completion completion) override {
    Message copy = message.message;
    copy.due_at.reset();
    sending_->send(request_, std::move(completion), require_taken,
                   wire::write_messages({&copy, 1}));
  }

 private:
  [[nodiscard]] static std::string messages_of(const std::string& url) {
    const std::size_t end = url.find_last_not_of('/') + 1;
    return url.substr(kOncebox.size(), end - kOncebox.size()) + "/messages";
  }

  static void require_taken(const webhook::WebhookAnswer& answer, Duration max_retry_after) {
    webhook::require_accepted(answer, max_retry_after);
    const std::vector<EnqueueOutcome> outcomes = wire::read_enqueued(answer.body);
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
[[nodiscard]] MakeAsyncPublisher maker_of(const std::shared_ptr<Sending>& sending) {
  return
      [sending](const EndpointTarget& target) { return std::make_shared<Made>(sending, target); };
}

}  // namespace

EndpointPublishers& EndpointPublishers::on(std::string scheme, MakePublisher make) {
  return on_async(std::move(scheme), [make = std::move(make)](const EndpointTarget& target) {
    return as_async(make(target));
  });
}

EndpointPublishers& EndpointPublishers::on_async(std::string scheme, MakeAsyncPublisher make) {
  makers_.insert_or_assign(std::move(scheme), std::move(make));
  return *this;
}

bool EndpointPublishers::knows(std::string_view url) const noexcept {
  return makers_.contains(scheme_of(url));
}

std::shared_ptr<AsyncPublisher> EndpointPublishers::make(const EndpointTarget& target) const {
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
    publishers.on_async(scheme, maker_of<SignedWebhook>(sending));
    publishers.on_async(fmt::format("{}{}", kOncebox, scheme), maker_of<OtherOncebox>(sending));
  }
  return publishers;
}

}  // namespace oncebox::publish
