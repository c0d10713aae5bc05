#include "oncebox/webhook/webhook_delivery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "oncebox/error.hpp"
#include "printable.hpp"

namespace oncebox::webhook {

namespace {

/// Of a request that found no connection free.
constexpr Duration kPauseOfFull = std::chrono::seconds{1};

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
    if (value && is_printable(*value)) fields.emplace_back(name.field, *value);
  }
}

std::string content_type_of(const Message& message, const std::string& fallback) {
  const auto own = message.headers.content_type();
  return own && !own->empty() && is_printable(*own) ? std::string(*own) : fallback;
}

}  // namespace

WebhookRequest request_for(const WebhookTarget& target, const ClaimedMessage& message,
                           TimePoint now) {
  const std::string_view body = message.message.payload.bytes();
  WebhookRequest request{.url = target.url,
                         .body = body,
                         .content_type = content_type_of(message.message, target.content_type),
                         .fields = target.signer.fields(webhook_id(message.message.key), now, body),
                         .allow_private = target.allow_private,
                         .timeout = target.timeout,
                         .lane = target.lane,
                         .group = target.group};
  add_fields_of(message, request.fields);
  request.fields.insert(request.fields.end(), target.fields.begin(), target.fields.end());
  return request;
}

void require_accepted(const WebhookAnswer& answer, Duration max_retry_after) {
  const WebhookAcceptance acceptance = answer.acceptance();
  if (acceptance == WebhookAcceptance::taken) return;
  if (answer.never_sent) throw NotNow(kPauseOfFull, answer.failure);
  if (answer.status == 0) {
    throw Error(ErrorCode::unavailable, "the receiver did not answer: " + answer.failure);
  }
  const std::string reason = fmt::format("the receiver answered {}", answer.status);
  if (acceptance == WebhookAcceptance::gone) throw ReceiverGone(reason);
  if (acceptance == WebhookAcceptance::refused) throw PermanentFailure(reason);
  if (answer.retry_after) throw RetryAfter(std::min(*answer.retry_after, max_retry_after), reason);
  throw Error(ErrorCode::unavailable, reason);
}

}  // namespace oncebox::webhook
