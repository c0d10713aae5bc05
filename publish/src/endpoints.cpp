#include "oncebox/publish/endpoints.hpp"

#include <algorithm>

#include "oncebox/error.hpp"
#include "oncebox/publish/secret.hpp"
#include "oncebox/webhook/webhook_signer.hpp"

namespace oncebox::publish {

namespace {

[[nodiscard]] bool is_webhook(std::string_view url) noexcept {
  return url.starts_with("https://") || url.starts_with("http://");
}

}  // namespace

void require_deliverable(const Endpoint& endpoint) {
  endpoint.validate();
  if (!is_webhook(endpoint.url) || !endpoint.secrets) return;
  if (endpoint.secrets->empty()) {
    throw Error(ErrorCode::invalid_argument,
                "secrets: a webhook is signed; give it one, \"whsec_\" and base64");
  }
  for (const std::string& reference : *endpoint.secrets) {
    if (is_literal_secret(reference)) (void)webhook::WebhookSigner({resolve_secret(reference)});
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

bool remove_endpoint(Store& store, const EndpointName& name) {
  const bool removed = store.endpoints().remove(name);
  store.policies().remove(QueueKind::deliveries, TopicPattern(Topic(name.str())));
  return removed;
}

}  // namespace oncebox::publish
