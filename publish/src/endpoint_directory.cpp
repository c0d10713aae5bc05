#include "endpoint_directory.hpp"

#include <utility>
#include <vector>

#include "oncebox/publish/secret.hpp"

namespace oncebox::publish {

EndpointDirectory::EndpointDirectory(std::string store, EndpointStore& endpoints,
                                     const EndpointPublishers& publishers)
    : store_(std::move(store)), endpoints_(endpoints), publishers_(publishers) {}

EndpointDirectory::Snapshot EndpointDirectory::known() const {
  const detail::Lock lock(mutex_);
  return known_;
}

EndpointDirectory::Snapshot EndpointDirectory::current() {
  const Snapshot before = known();
  std::optional<EndpointList> list =
      before && !before->has_problems
          ? endpoints_.list_unless(before->version, EndpointSecrets::include)
          : endpoints_.list(EndpointSecrets::include);
  const Snapshot after = list ? made_of(std::move(*list), before) : before;
  const detail::Lock lock(mutex_);
  known_ = after;
  return after;
}

EndpointDirectory::Snapshot EndpointDirectory::made_of(EndpointList list, const Snapshot& before) {
  auto made = std::make_shared<KnownEndpoints>();
  made->version = list.version;
  for (EndpointRecord& record : list.endpoints) {
    const std::string name = record.endpoint.name.str();
    if (before) {
      const auto same = before->endpoints.find(name);
      // One that did not work may work now.
      if (same != before->endpoints.end() && same->second.publisher &&
          same->second.record->endpoint == record.endpoint) {
        made->endpoints.emplace(
            name, KnownEndpoint{.record = std::make_shared<EndpointRecord>(std::move(record)),
                                .publisher = same->second.publisher});
        continue;
      }
    }
    KnownEndpoint known = known_as(std::move(record));
    made->has_problems |= known.publisher == nullptr;
    made->endpoints.emplace(name, std::move(known));
  }
  return made;
}

KnownEndpoint EndpointDirectory::known_as(EndpointRecord record) const {
  KnownEndpoint known{.record = std::make_shared<EndpointRecord>(std::move(record))};
  const Endpoint& endpoint = known.record->endpoint;
  try {
    std::vector<std::string> secrets;
    for (const std::string& reference : endpoint.secrets.value_or(std::vector<std::string>())) {
      secrets.push_back(resolve_secret(reference));
    }
    known.publisher =
        publishers_.make({endpoint, std::move(secrets), store_ + "/" + endpoint.name.str()});
  } catch (const std::exception& failure) {
    known.problem = failure.what();
  }
  return known;
}

}  // namespace oncebox::publish
