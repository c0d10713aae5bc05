#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "endpoint_directory.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/log.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/store.hpp"

namespace oncebox::publish {

/// A store whose outbox is published.
struct PublishingStore {
  PublishingStore(std::string store_name, Store& published, std::shared_ptr<void> kept,
                  const EndpointPublishers& publishers)
      : name(std::move(store_name)),
        store(published),
        keep_alive(std::move(kept)),
        directory(name, published.endpoints(), publishers) {}

  const std::string name;
  Store& store;
  const std::shared_ptr<void> keep_alive;
  EndpointDirectory directory;

  /// Whether this process has noted that an endpoint fails, and not since that it works: what it
  /// knows of the endpoint may be older.
  [[nodiscard]] bool take_failing(const std::string& endpoint) {
    const detail::Lock lock(mutex);
    return failing.erase(endpoint) > 0;
  }
  void note_failing(const std::string& endpoint) {
    const detail::Lock lock(mutex);
    failing.insert(endpoint);
  }

  detail::Mutex mutex;
  std::set<std::string> failing ONCEBOX_GUARDED_BY(mutex);
};

/// The store of this name. Throws `NotNow` when it is just going.
using FindPublishingStore = std::function<std::shared_ptr<PublishingStore>(std::string_view name)>;

struct PublishingParts {
  FindPublishingStore find;
  std::function<void(const EndpointNotice&)> on_disabled;
  Logger& logger;
  const Clock& clock;
};

/// What the two dispatchers run: for the outbox, and for the deliveries. `parts` is borrowed.
[[nodiscard]] Publishers fan_out(const PublishingParts& parts);
[[nodiscard]] Publishers to_endpoints(const PublishingParts& parts);

}  // namespace oncebox::publish
