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
    if (is_literal(reference)) (void)webhook::WebhookSigner({resolve_secret(reference)});
  }
}

EndpointSaved save_endpoint(Store& store, const Endpoint& endpoint,
                            const TopicPolicyChange& policy) {
  require_deliverable(endpoint);
  const EndpointList known = store.endpoints().list();
  const bool is_new = known.find(endpoint.name.str()) == nullptr;
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
  return store.endpoints().save(endpoint);
}

bool remove_endpoint(Store& store, const EndpointName& name) {
  const bool removed = store.endpoints().remove(name);
  store.policies().remove(QueueKind::deliveries, TopicPattern(Topic(name.str())));
  return removed;
}

}  // namespace oncebox::publish
