#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/handler_hooks.hpp"
#include "oncebox/dispatch/running_stats.hpp"
#include "oncebox/endpoint.hpp"
#include "oncebox/endpoint_store.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/publish/endpoint_publishers.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/store.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/surroundings_of_queues.hpp"

namespace oncebox::publish {

/// That an endpoint was disabled.
struct EndpointNotice {
  std::string_view store;  ///< empty: the only one
  const EndpointName& endpoint;
  const EndpointStatus& status;
};

/// Deliveries that are under way at once, of one store and in one process: what all endpoints that
/// a store may have can have under way together, by the usual rule. So those that hang, however
/// many, leave the others theirs.
inline constexpr std::size_t kUsualUnderWay = EndpointStore::kMaxEndpoints * kUsualConcurrency;

struct PublishingOptions {
  /// Of the dispatcher that makes deliveries of the messages of the outbox.
  DispatcherOptions fan_out = {.workers = 4};
  /// Of the dispatcher that hands deliveries to endpoints. What is under way keeps no worker,
  /// unless the publisher of its endpoint is one that waits. `max_buffered` bounds how much is
  /// under way of a store; nothing: `kUsualUnderWay`.
  DispatcherOptions deliveries = {
      .workers = 16, .max_buffered = kUsualUnderWay, .buffer_bytes = limits::kMaxClaimBytes};
  /// Called once, by whichever process disabled the endpoint, on a thread of its own. What it
  /// throws is logged.
  std::function<void(const EndpointNotice& notice)> on_disabled = {};
  /// Around each delivery to an endpoint, whatever publishes it; the first one is the outermost.
  /// The message is the delivery, whose topic is the name of the endpoint, see `original_of`. None
  /// may be empty.
  std::vector<AsyncMiddleware> around_deliveries = {};
};

struct PublishingStats {
  RunningStats fan_out;     ///< `handled` counts messages of the outbox
  RunningStats deliveries;  ///< `handled` counts what endpoints have accepted
};

/// Publishes the outbox of a store to its endpoints (`Store::endpoints`).
///
/// **Fan-out.** A message of the outbox becomes one delivery for each endpoint of which a topic
/// matches and that is not disabled, and is done when these are stored. When the process dies
/// between, that is repeated, and makes every delivery once. A message that no endpoint wants is
/// done, too.
///
/// **Deliveries.** Each is a message of its own, with its own attempts, and goes by the policy of
/// the topic with the endpoint's name in `QueueKind::deliveries`: an endpoint that fails or is slow
/// holds up no other, as long as that policy limits how many run at once (`save_endpoint` sees to
/// it). Messages of one partition key reach an endpoint in their order. A delivery is done only
/// after the receiver has accepted it; when the process dies between, it is sent again under the
/// same id.
///
/// **Endpoints that fail.** A failure to deliver counts from the first one on, `failing_since`, and
/// so does an endpoint that cannot be used, because a secret is not there for example. A success
/// ends that, and so does a pause of a quarter of `disable_after` without a failure. When it has
/// lasted for `disable_after` the endpoint is disabled; so it is at once when its receiver says
/// that it is gone (410). A receiver that refuses one message for good (another 4xx) is there: that
/// counts as neither. What is under way to a disabled endpoint is dead, and `resend` brings it back
/// once it is enabled.
///
/// A receiver that asks for time (`RetryAfter`) gets nothing from this process until then, or until
/// the endpoint is changed or enabled: other deliveries to it are released, and no attempt is
/// counted. A test (`send_test`) it gets in any case.
///
/// **A store that does not answer** is waited for two seconds when it is asked for its endpoints,
/// and five, and four more for each MiB, when deliveries are stored. Then its messages are
/// released, no attempt is counted, and they come again.
///
/// Whoever adds or changes an endpoint reaches every message that is enqueued, and every attempt
/// that begins, afterwards. Secrets in files are read again every few seconds; while a file cannot
/// be read, those that stood there are used.
///
/// Any number of these, in any number of processes, may work on one store. Safe from any thread,
/// except for construction and destruction.
class Publishing {
 public:
  /// Publishers and options are copied; everything else is borrowed and must outlive this object.
  /// Throws as `DispatcherOptions::validate` and `Handlers::around_async` do.
  Publishing(Store& store, const EndpointPublishers& publishers,
             const PublishingOptions& options = {}, const Surroundings& surroundings = {});
  /// With `standard_publishers`.
  explicit Publishing(Store& store, const PublishingOptions& options = {},
                      const Surroundings& surroundings = {});
  ~Publishing();
  Publishing(const Publishing&) = delete;
  Publishing& operator=(const Publishing&) = delete;

  /// These are as those of `Dispatcher`, for both dispatchers.
  void start();
  StopResult stop(const StopOptions& options = {});
  void wake() noexcept;
  [[nodiscard]] PublishingStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A `Publishing` over all stores of a set, as they come and go: one pool of workers for the
/// fan-out and one for the deliveries, whatever the number of stores. See `SetDispatcher`. Neither
/// endpoints of one store that hang nor a store that does not answer hold up the others. From
/// when it hears of a store, what none of the store's endpoints wants is done: so tell it of a
/// store once the endpoints are there.
class SetPublishing {
 public:
  /// As of `Publishing`; of the observers, those of the outbox and of the deliveries hear.
  SetPublishing(StoreSource& stores, const EndpointPublishers& publishers,
                const PublishingOptions& options = {},
                const SurroundingsOfQueues& surroundings = {});
  ~SetPublishing();
  SetPublishing(const SetPublishing&) = delete;
  SetPublishing& operator=(const SetPublishing&) = delete;

  void start();
  /// Nothing more is begun; what is under way goes on. For who has other things to end as well,
  /// before `stop`.
  void drain();
  /// `finish_within` is for fan-out and deliveries together.
  StopResult stop(const StopOptions& options = {});
  void wake() noexcept;
  [[nodiscard]] PublishingStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::publish
