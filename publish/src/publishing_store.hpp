#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brief_calls.hpp"
#include "endpoint_directory.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/log.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/store.hpp"

namespace oncebox::publish {

/// A store whose outbox is published.
struct PublishingStore {
  PublishingStore(std::string store_name, Store& published, std::shared_ptr<void> kept,
                  const EndpointPublishers& publishers, const Clock& clock)
      : name(std::move(store_name)),
        store(published),
        keep_alive(std::move(kept)),
        directory(name, published.endpoints(), publishers),
        looks(clock),
        storing(clock) {}

  /// The endpoints as they are now. Throws `NotNow` when the store does not tell.
  [[nodiscard]] EndpointDirectory::Snapshot endpoints(TimePoint now);

  const std::string name;
  Store& store;
  const std::shared_ptr<void> keep_alive;
  EndpointDirectory directory;
  // Of the workers. Apart, because a database may answer the one and hang at the other: a look that
  // is answered must not send all workers to store what hangs.
  BriefCalls looks;    ///< at the endpoints
  BriefCalls storing;  ///< of deliveries
};

/// The store of this name. Throws `NotNow` when it is just going.
using FindPublishingStore = std::function<std::shared_ptr<PublishingStore>(std::string_view name)>;

struct PublishingParts {
  FindPublishingStore find;
  std::function<void(const EndpointNotice&)> on_disabled;
  Logger& logger;
  const Clock& clock;
};

/// Of the dispatcher of deliveries, with what they leave open.
[[nodiscard]] DispatcherOptions for_deliveries(DispatcherOptions options);

/// What the two dispatchers run: for the outbox, and for the deliveries. `parts` is borrowed.
[[nodiscard]] Handlers fan_out(const PublishingParts& parts);
[[nodiscard]] Publishers to_endpoints(const PublishingParts& parts,
                                      const std::vector<AsyncMiddleware>& around);

}  // namespace oncebox::publish
