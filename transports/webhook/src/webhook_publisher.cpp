#include "oncebox/webhook/webhook_publisher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::webhook {

namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool may_be_in_id(char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; }

bool may_be_in_value(char c) { return c >= ' ' && c <= '~' && c != '%'; }

template <class Keep>
std::string escaped(std::string_view text, Keep keep) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (keep(c)) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

std::string webhook_id(const MessageKey& key) {
  return escaped(key.source.str(), may_be_in_id) + ':' +
         escaped(key.message_id.str(), may_be_in_id);
}

struct FieldName {
  std::string_view header;
  const char* field;
};
constexpr FieldName kEscapedFields[] = {
    {header_names::kCorrelationId, "Oncebox-Correlation-Id"},
    {header_names::kCausationId, "Oncebox-Causation-Id"},
    {header_names::kPartitionKey, "Oncebox-Partition-Key"},
    {header_names::kTimestamp, "Oncebox-Timestamp"},
};
// Of other people's making: as they are, or not at all.
constexpr FieldName kPlainFields[] = {
    {header_names::kTraceparent, "traceparent"},
    {header_names::kTracestate, "tracestate"},
    {header_names::kIdempotencyKey, "Idempotency-Key"},
};

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void add_fields_of(const ClaimedMessage& claimed, FieldLines& fields) {
  const Message& message = claimed.message;
  fields.emplace_back("Oncebox-Topic", escaped(message.topic.str(), may_be_in_value));
  fields.emplace_back("Oncebox-Source", escaped(message.key.source.str(), may_be_in_value));
  fields.emplace_back("Oncebox-Message-Id", escaped(message.key.message_id.str(), may_be_in_value));
  fields.emplace_back("Oncebox-Attempt", std::to_string(claimed.history.attempt + 1));
  for (const FieldName& name : kEscapedFields) {
    if (const auto value = message.headers.get(name.header)) {
      fields.emplace_back(name.field, escaped(*value, may_be_in_value));
    }
  }
  for (const FieldName& name : kPlainFields) {
    const auto value = message.headers.get(name.header);
    if (value && is_plain(*value)) fields.emplace_back(name.field, *value);
  }
}

void require_taken(const WebhookAnswer& answer, Duration max_retry_after) {
  const WebhookAcceptance acceptance = answer.acceptance();
  if (acceptance == WebhookAcceptance::taken) return;
  if (answer.status == 0) {
    throw Error(ErrorCode::unavailable, "the receiver did not answer: " + answer.failure);
  }
  const std::string reason = fmt::format("the receiver answered {}", answer.status);
  const bool is_final =
      acceptance == WebhookAcceptance::refused || acceptance == WebhookAcceptance::gone;
  if (is_final) throw PermanentFailure(reason);
  if (answer.retry_after) throw RetryAfter(std::min(*answer.retry_after, max_retry_after), reason);
  throw Error(ErrorCode::unavailable, reason);
}

}  // namespace

void WebhookPublisherOptions::validate() const {
  if (endpoints.empty()) throw Error(ErrorCode::invalid_argument, "endpoints: there is none");
  for (const WebhookEndpoint& endpoint : endpoints) {
    require_webhook_url(endpoint.url);
    (void)WebhookSigner(endpoint.secrets);
    endpoint.limits.validate();
  }
  client.validate();
  if (content_type.empty() || !is_plain(content_type)) {
    throw Error(ErrorCode::invalid_argument, "content_type: it is empty, or not printable ASCII");
  }
  require_in_range("max_retry_after", max_retry_after, Duration{1}, limits::kMaxDelay);
}

class WebhookPublisher::Impl {
 public:
  Impl(const WebhookPublisherOptions& options, const Clock& clock)
      : content_type_(options.content_type),
        max_retry_after_(options.max_retry_after),
        clock_(clock),
        client_(options.client, clock) {
    options.validate();
    for (const WebhookEndpoint& endpoint : options.endpoints) {
      patterns_.push_back(endpoint.topics);
      targets_.push_back({endpoint.url, WebhookSigner(endpoint.secrets), endpoint.allow_private});
    }
  }

  void publish(const ClaimedMessage& claimed, const std::stop_token& stop) {
    const Message& message = claimed.message;
    const Target& target = target_of(message.topic);
    WebhookRequest request{.url = target.url,
                           .body = message.payload.bytes(),
                           .content_type = content_type_of(message),
                           .fields = target.signer.fields(webhook_id(message.key), clock_.now(),
                                                          message.payload.bytes()),
                           .allow_private = target.allow_private};
    add_fields_of(claimed, request.fields);
    require_taken(client_.post(request, stop), max_retry_after_);
  }

 private:
  struct Target {
    std::string url;
    WebhookSigner signer;
    bool allow_private;
  };

  [[nodiscard]] const Target& target_of(const Topic& topic) const {
    const auto place = best_match(patterns_, topic.str());
    if (!place) {
      throw Error(ErrorCode::not_found, "no endpoint of the webhooks serves topic " + topic.str());
    }
    return targets_[*place];
  }

  [[nodiscard]] std::string content_type_of(const Message& message) const {
    const auto own = message.headers.content_type();
    return own && !own->empty() && is_plain(*own) ? std::string(*own) : content_type_;
  }

  const std::string content_type_;
  const Duration max_retry_after_;
  const Clock& clock_;
  std::vector<TopicPattern> patterns_;
  std::vector<Target> targets_;  // one for each pattern
  WebhookClient client_;
};

WebhookPublisher::WebhookPublisher(const WebhookPublisherOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
WebhookPublisher::WebhookPublisher(const WebhookPublisherOptions& options)
    : WebhookPublisher(options, SystemClock::shared()) {}
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

Publishers webhook_publishers(const WebhookPublisherOptions& options) {
  return webhook_publishers(options, SystemClock::shared());
}

}  // namespace oncebox::webhook
