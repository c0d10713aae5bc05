#include "oncebox/publish/endpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/internal/http_text.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/publish/delivery.hpp"
#include "oncebox/publish/secret.hpp"
#include "oncebox/uuid.hpp"
#include "oncebox/webhook/webhook_signer.hpp"

namespace oncebox::publish {

namespace {

constexpr std::string_view kToOncebox = "oncebox+";
constexpr Duration kLongestTest = std::chrono::hours{1};

/// Fields that requests have by themselves, or that belong to their connection.
constexpr std::array<std::string_view, 14> kOwnFields = {
    "content-type", "content-length", "transfer-encoding", "host",
    "connection",   "keep-alive",     "proxy-connection",  "expect",
    "te",           "trailer",        "upgrade",           "traceparent",
    "tracestate",   "idempotency-key"};
/// What the names of the others begin with.
constexpr std::array<std::string_view, 2> kOwnPrefixes = {"webhook-", "oncebox-"};

[[noreturn]] void refuse_endpoint(std::string why) {
  throw Error(ErrorCode::invalid_argument, std::move(why));
}

[[nodiscard]] std::string_view scheme_in(std::string_view url) noexcept {
  return url.substr(0, url.find("://"));
}

[[nodiscard]] bool is_webhook(std::string_view url) noexcept {
  return url.starts_with("https://") || url.starts_with("http://");
}

[[nodiscard]] bool is_own_field(std::string_view name, bool to_oncebox) noexcept {
  const auto is_it = [&](std::string_view own) { return detail::equal_ignoring_case(name, own); };
  const auto begins = [&](std::string_view prefix) {
    return detail::equal_ignoring_case(name.substr(0, prefix.size()), prefix);
  };
  return std::ranges::any_of(kOwnFields, is_it) || std::ranges::any_of(kOwnPrefixes, begins) ||
         (to_oncebox && is_it("authorization"));
}

}  // namespace

void require_deliverable(const Endpoint& endpoint) {
  endpoint.validate();
  const bool to_oncebox = endpoint.url.starts_with(kToOncebox);
  if (!is_webhook(endpoint.url) && !to_oncebox) return;
  for (const auto& [name, value] : endpoint.headers) {
    if (!is_own_field(name, to_oncebox)) continue;
    refuse_endpoint(fmt::format("headers: every request has a {} of its own{}", name,
                                to_oncebox ? "; a token is the first of the secrets" : ""));
  }
  if (to_oncebox || !endpoint.secrets) return;
  if (endpoint.secrets->empty()) {
    refuse_endpoint("secrets: a webhook is signed; give it one, \"whsec_\" and base64");
  }
  for (const std::string& reference : *endpoint.secrets) {
    if (is_literal_secret(reference)) (void)webhook::WebhookSigner({resolve_secret(reference)});
  }
}

void require_standard(const Endpoint& endpoint) {
  require_deliverable(endpoint);
  if (std::ranges::find(kStandardSchemes, scheme_in(endpoint.url)) == kStandardSchemes.end()) {
    refuse_endpoint(
        fmt::format("url: it begins with https:// or http:// for a signed webhook, with "
                    "oncebox+https:// or oncebox+http:// for another Oncebox, and not with {}://",
                    scheme_in(endpoint.url)));
  }
  if (endpoint.url.starts_with(kToOncebox) &&
      endpoint.url.find_first_of("?#") != std::string::npos) {
    refuse_endpoint(
        "url: that of another Oncebox ends with its path, such as oncebox+https://HOST/v1");
  }
}

EndpointSaved save_endpoint(Store& store, const Endpoint& endpoint, const TopicPolicyChange& policy,
                            const EndpointOptions& options) {
  require_deliverable(endpoint);
  const EndpointList list = store.endpoints().list(
      options.may_name_secrets ? EndpointSecrets::leave_out : EndpointSecrets::include);
  const EndpointRecord* const known = list.find(endpoint.name.str());
  const bool is_new = known == nullptr;
  (void)endpoint_after({.known = is_new ? std::nullopt : std::optional(known->endpoint),
                        .count = list.endpoints.size()},
                       endpoint, options);
  if (is_new && !endpoint.secrets) {
    Endpoint without = endpoint;
    without.secrets.emplace();
    require_deliverable(without);
  }
  const TopicPattern topic{Topic(endpoint.name.str())};
  TopicPolicyChange change = policy;
  const TopicPolicy rule = store.policies().policies(QueueKind::deliveries).rule_of(topic);
  if (is_new && change.limits.max_concurrency.leaves() && !rule.limits.max_concurrency) {
    change.limits.max_concurrency = kUsualConcurrency;
  }
  if (!change.empty()) store.policies().update(QueueKind::deliveries, topic, change);
  return store.endpoints().save(endpoint, options);
}

MessageKey send_test(Store& store, const EndpointName& name, Duration within, const Clock& clock) {
  require_in_range("time to wait", within, Duration{1}, kLongestTest);
  if (store.endpoints().list().find(name.str()) == nullptr) {
    throw Error(ErrorCode::not_found, fmt::format("there is no endpoint {}", name.str()));
  }
  const TimePoint now = clock.now();
  const Message message{.key = {"oncebox", Uuid::generate_v7(now).to_string()},
                        .topic = Topic(std::string(kTestTopic)),
                        .payload = R"({"test":true})",
                        .headers = {{std::string(header_names::kContentType), "application/json"}},
                        .priority = Priority::kMax,
                        .expires_at = now + within};
  Message delivery = delivery_of(message, name);
  delivery.headers.set(kTestHeader, "true");
  store.deliveries().enqueue(delivery);
  return delivery.key;
}

bool remove_endpoint(Store& store, const EndpointName& name) {
  const bool removed = store.endpoints().remove(name);
  store.policies().remove(QueueKind::deliveries, TopicPattern(Topic(name.str())));
  return removed;
}

}  // namespace oncebox::publish
