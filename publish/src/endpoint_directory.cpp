#include "endpoint_directory.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "oncebox/publish/secret.hpp"

namespace oncebox::publish {

namespace {

/// How long a file may have another secret before somebody notices.
constexpr Duration kLookAgainAfter = std::chrono::seconds{5};

[[nodiscard]] bool may_change(const KnownEndpoint& known) {
  const auto& references = known.record->endpoint.secrets;
  const auto is_in_file = [](const std::string& text) { return text.starts_with("file:"); };
  return known.publisher == nullptr || (references && std::ranges::any_of(*references, is_in_file));
}

[[nodiscard]] std::vector<std::string> secrets_of(const Endpoint& endpoint) {
  std::vector<std::string> secrets;
  for (const std::string& reference : endpoint.secrets.value_or(std::vector<std::string>())) {
    secrets.push_back(resolve_secret(reference));
  }
  return secrets;
}

}  // namespace

EndpointDirectory::EndpointDirectory(std::string store, EndpointStore& endpoints,
                                     const EndpointPublishers& publishers)
    : store_(std::move(store)), endpoints_(endpoints), publishers_(publishers) {}

EndpointDirectory::Snapshot EndpointDirectory::current(TimePoint now, const CallOptions& call) {
  Snapshot before;
  bool looks_again = false;
  {
    const detail::Lock lock(mutex_);
    before = known_;
    looks_again = now - looked_at_ >= kLookAgainAfter || now < looked_at_;
    if (looks_again) looked_at_ = now;
  }
  std::optional<EndpointList> list =
      before ? endpoints_.list_unless(before->version, EndpointSecrets::include, call)
             : endpoints_.list(EndpointSecrets::include, call);
  Snapshot after = before;
  if (list) {
    after = made_of(std::move(*list), before);
  } else if (looks_again) {
    after = looked_at_again(before);
  }
  if (after == before) return after;
  const detail::Lock lock(mutex_);
  // Another thread may have seen more meanwhile.
  if (!known_ || known_->version <= after->version) known_ = after;
  return after;
}

EndpointDirectory::Snapshot EndpointDirectory::made_of(EndpointList list,
                                                       const Snapshot& before) const {
  auto made = std::make_shared<KnownEndpoints>();
  made->version = list.version;
  for (EndpointRecord& record : list.endpoints) {
    const std::string name = record.endpoint.name.str();
    const KnownEndpoint* same = nullptr;
    if (before) {
      const auto found = before->endpoints.find(name);
      if (found != before->endpoints.end()) same = &found->second;
    }
    made->endpoints.emplace(name,
                            known_as(std::make_shared<EndpointRecord>(std::move(record)), same));
  }
  return made;
}

EndpointDirectory::Snapshot EndpointDirectory::looked_at_again(const Snapshot& before) const {
  std::shared_ptr<KnownEndpoints> after;
  for (const auto& [name, known] : before->endpoints) {
    if (!may_change(known)) continue;
    KnownEndpoint again = known_as(known.record, &known);
    if (again.publisher == known.publisher && again.problem == known.problem) continue;
    if (!after) after = std::make_shared<KnownEndpoints>(*before);
    after->endpoints.insert_or_assign(name, std::move(again));
  }
  return after ? Snapshot(std::move(after)) : before;
}

KnownEndpoint EndpointDirectory::known_as(std::shared_ptr<const EndpointRecord> record,
                                          const KnownEndpoint* before) const {
  KnownEndpoint known{.record = std::move(record)};
  const Endpoint& endpoint = known.record->endpoint;
  const bool is_same =
      before != nullptr && before->publisher && before->record->endpoint == endpoint;
  try {
    known.secrets = secrets_of(endpoint);
    known.publisher = is_same && known.secrets == before->secrets
                          ? before->publisher
                          : publishers_.make({endpoint, known.secrets,
                                              store_ + "/" + endpoint.name.str(), store_});
  } catch (const std::exception& failure) {
    known.problem = failure.what();
    if (!is_same) return known;
    // A file that is just being replaced: the secrets that it had are good until it is there.
    known.secrets = before->secrets;
    known.publisher = before->publisher;
  }
  return known;
}

}  // namespace oncebox::publish
