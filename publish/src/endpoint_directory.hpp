#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/endpoint_store.hpp"
#include "oncebox/publish/endpoint_publishers.hpp"

namespace oncebox::publish {

/// An endpoint, and what publishes to it.
struct KnownEndpoint {
  std::shared_ptr<const EndpointRecord> record;
  std::shared_ptr<AsyncPublisher> publisher = {};  ///< null: see `problem`
  std::string problem = {};
};

/// The endpoints of a store at one version.
struct KnownEndpoints {
  std::int64_t version = 0;
  bool has_problems = false;  ///< then they are made anew, also when nothing has changed
  std::map<std::string, KnownEndpoint, std::less<>> endpoints = {};
};

/// What a process knows of the endpoints of a store. Safe from any thread.
class EndpointDirectory {
 public:
  using Snapshot = std::shared_ptr<const KnownEndpoints>;

  /// Everything is borrowed. `store` names it among those of the process.
  EndpointDirectory(std::string store, EndpointStore& endpoints,
                    const EndpointPublishers& publishers);

  /// What holds now: asks the store.
  [[nodiscard]] Snapshot current();

 private:
  [[nodiscard]] Snapshot known() const;
  [[nodiscard]] Snapshot made_of(EndpointList list, const Snapshot& before);
  [[nodiscard]] KnownEndpoint known_as(EndpointRecord record) const;

  const std::string store_;
  EndpointStore& endpoints_;
  const EndpointPublishers& publishers_;
  mutable detail::Mutex mutex_;
  Snapshot known_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::publish
