#include "api/publish_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/wire/endpoint_json.hpp"

namespace oncebox::server {

namespace {

constexpr std::size_t kMaxPublishWorkers = 1'024;
/// Who has set a configured endpoint, in the audit trail.
constexpr std::string_view kEndpointActor = "configuration";

[[nodiscard]] Headers headers_of(const std::vector<std::string>& lines) {
  Headers headers;
  for (const std::string& line : lines) {
    const std::size_t colon = line.find(':');
    const std::size_t value = line.find_first_not_of(' ', colon == line.npos ? colon : colon + 1);
    if (colon == line.npos || colon == 0 || value == line.npos) {
      throw Error(ErrorCode::invalid_argument, "headers: one is written as \"Name: value\"");
    }
    headers.set(line.substr(0, colon), line.substr(value));
  }
  return headers;
}

void set_endpoint(Store& store, const PublishEndpoint& wanted, const Endpoint& endpoint) {
  const EndpointList known = store.endpoints().list(EndpointSecrets::include);
  const EndpointRecord* const record = known.find(wanted.name);
  const TopicPattern topic{Topic(wanted.name)};
  const TopicPolicy rule = store.policies().policies(QueueKind::deliveries).rule_of(topic);
  TopicPolicy after = rule;
  after.apply(wanted.policy);
  if (record != nullptr && record->endpoint == endpoint && after == rule) return;
  audited(
      store.audit(),
      {.actor = std::string(kEndpointActor),
       .action = AuditAction::set_endpoint,
       .part = AuditedPart::endpoints,
       .subject = wire::audit_subject(endpoint)},
      [&] { return publish::save_endpoint(store, endpoint, wanted.policy); },
      [](EndpointSaved) -> std::size_t { return 1; });
}

[[nodiscard]] publish::PublishingOptions publishing_options(const PublishOptions& options,
                                                            NoticeSender& notices) {
  publish::PublishingOptions all{.on_disabled = [&notices](const publish::EndpointNotice& notice) {
    notices.on_endpoint_disabled({notice.store, notice.endpoint, notice.status});
  }};
  all.deliveries.workers = options.workers;
  return all;
}

/// The store is held while it is worked on, and holds what is counted of it.
[[nodiscard]] ObserverOfStore observers_of(Metrics& metrics, QueueKind queue) {
  return [&metrics, queue](const std::string& store) -> Observer& {
    return metrics.of_store(store)->queue(queue);
  };
}

[[nodiscard]] publish::EndpointPublishers publishers_of(const ApiParts& parts) {
  const PublishOptions& options = parts.options.publish;
  return publish::standard_publishers(
      {.client = {.timeout = options.timeout,
                  .ca_file = options.ca_file,
                  .proxy_checks_addresses = options.proxy_checks_addresses},
       .max_retry_after = options.max_retry_after},
      parts.clock);
}

/// Of two of one name in a store, each would undo what the other has set.
void require_name_is_free(std::span<const PublishEndpoint> before, const PublishEndpoint& added) {
  const bool is_taken = std::ranges::any_of(before, [&](const PublishEndpoint& other) {
    return other.name == added.name &&
           (other.store == added.store || other.store.empty() || added.store.empty());
  });
  if (is_taken) {
    throw Error(ErrorCode::invalid_argument,
                "there is another one of this name for the same store");
  }
}

}  // namespace

Endpoint PublishEndpoint::endpoint() const {
  Endpoint endpoint{.name = EndpointName(name),
                    .url = url,
                    .topics = {topics.begin(), topics.end()},
                    .secrets = secrets,
                    .headers = headers_of(headers),
                    .timeout = timeout,
                    .allow_private = allow_private,
                    .disable_after = disable_after};
  publish::require_standard(endpoint);
  return endpoint;
}

void PublishOptions::validate() const {
  require_in_range("publishing.workers", workers, 1, kMaxPublishWorkers);
  require_in_range("publishing.timeout", timeout, Duration{1}, Endpoint::kMaxTimeout);
  require_in_range("publishing.max_retry_after", max_retry_after, Duration{1}, limits::kMaxDelay);
  std::error_code unreadable;
  if (!ca_file.empty() && !std::filesystem::is_regular_file(ca_file, unreadable)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("publishing.ca_file: there is no file {}", ca_file.string()));
  }
  for (auto one = endpoints.begin(); one != endpoints.end(); ++one) {
    try {
      (void)one->endpoint();
      one->policy.validate();
      require_name_is_free({endpoints.begin(), one}, *one);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("publish \"{}\": {}", one->name, error.what()));
    }
  }
}

void set_configured_endpoints(Store& store, std::string_view name, const PublishOptions& options) {
  for (const PublishEndpoint& wanted : options.endpoints) {
    if (!wanted.store.empty() && wanted.store != name) continue;
    set_endpoint(store, wanted, wanted.endpoint());
  }
}

PublishService::PublishService(const ApiParts& parts, NoticeSender& notices)
    : publishing_(stores_, publishers_of(parts), publishing_options(parts.options.publish, notices),
                  {.logger = parts.logger,
                   .observers = {.outbox = observers_of(parts.metrics, QueueKind::outbox),
                                 .deliveries = observers_of(parts.metrics, QueueKind::deliveries)},
                   .clock = parts.clock,
                   .tracer = parts.tracer}) {}

}  // namespace oncebox::server
