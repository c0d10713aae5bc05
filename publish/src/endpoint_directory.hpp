#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/endpoint_store.hpp"
#include "oncebox/publish/endpoint_publishers.hpp"

namespace oncebox::publish {

/// An endpoint, and what publishes to it.
struct KnownEndpoint {
  std::shared_ptr<const EndpointRecord> record;
  std::vector<std::string> secrets = {};           ///< what its references mean
  std::shared_ptr<AsyncPublisher> publisher = {};  ///< null: see `problem`
  std::string problem = {};
};

/// The endpoints of a store at one version.
struct KnownEndpoints {
  std::int64_t version = 0;
  std::map<std::string, KnownEndpoint, std::less<>> endpoints = {};
};

/// What a process knows of the endpoints of a store. Safe from any thread.
class EndpointDirectory {
 public:
  using Snapshot = std::shared_ptr<const KnownEndpoints>;

  /// Everything is borrowed. `store` names it among those of the process.
  EndpointDirectory(std::string store, EndpointStore& endpoints,
                    const EndpointPublishers& publishers);

  /// What holds now: asks the store. Secrets that stand in files, and endpoints that could not be
  /// used, are looked at again from time to time, also when nothing in the store has changed.
  [[nodiscard]] Snapshot current(TimePoint now, const CallOptions& call = {});

 private:
  [[nodiscard]] Snapshot made_of(EndpointList list, const Snapshot& before) const;
  [[nodiscard]] Snapshot looked_at_again(const Snapshot& before) const;
  /// Takes from the one before what is the same.
  [[nodiscard]] KnownEndpoint known_as(std::shared_ptr<const EndpointRecord> record,
                                       const KnownEndpoint* before) const;

  const std::string store_;
  EndpointStore& endpoints_;
  const EndpointPublishers& publishers_;
  mutable detail::Mutex mutex_;
  Snapshot known_ ONCEBOX_GUARDED_BY(mutex_);
  TimePoint looked_at_ ONCEBOX_GUARDED_BY(mutex_){};
};

}  // namespace oncebox::publish
