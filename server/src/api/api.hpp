#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "api/api_routes.hpp"
#include "api/call_pool.hpp"
#include "api/event_streams.hpp"
#include "api/readiness.hpp"
#include "api/recovery.hpp"
#include "api/served_stores.hpp"
#include "api/timers.hpp"
#include "http/router.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/server/server_options.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox::server {

class PublishService;

/// What the service does with its stores: the routes of `/v1` but for webhooks, and the work behind
/// them (threads that wait for stores, claims that wait, reaping, retention, live statistics).
class Api {
 public:
  /// Everything but the options is borrowed. The stores are those of the set, from when each comes
  /// until it is removed. The metrics are what observes; see `Server` for the tracer.
  Api(const ServerOptions& options, StoreSet& stores, Metrics& metrics,
      const Surroundings& surroundings);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  void add_routes(Router& router);
  void start();
  /// Waiting claims are answered empty, event streams end, and publishing begins nothing more.
  /// Calls and deliveries go on.
  void drain() noexcept;
  /// Waits so long for the deliveries that are under way; those that are left come again. To be
  /// called after `drain`, by any thread; one that waits less ends the wait of the others.
  void finish_publishing(Duration within);

  /// What its dispatchers do now goes to the metrics.
  void show_publishing();

  /// The tokens have been read again. Ends the waiting claims and event streams of callers whose
  /// token is not what it was.
  void check_tokens();

  /// An empty name means the default. Throws `not_found`, and `unavailable` while it is down.
  [[nodiscard]] ServedStorePtr find_store(std::string_view name) { return stores_.find(name); }

  /// The threads for what would hold up a thread of the sockets.
  [[nodiscard]] CallPool& calls() noexcept { return calls_; }

  /// The default store is asked at most once a second, because probes come often; one that does not
  /// answer within that time cannot be used.
  [[nodiscard]] Readiness readiness();
  /// The same without waiting: nothing when the last answer is too old.
  [[nodiscard]] std::optional<Readiness> known_readiness();

 private:
  const ServerOptions options_;
  CallPool calls_;
  Timers timers_;
  const ApiParts parts_;
  ServedStores stores_;
  EventStreams events_;
  Recovery recovery_;
  const std::unique_ptr<PublishService> publishing_;  ///< null: somebody else works on the outboxes
  const ApiContext context_{parts_, stores_};
  HealthProbe probe_;
  detail::Mutex asking_mutex_;  ///< taken before the other one
  detail::Mutex readiness_mutex_;
  Readiness readiness_ ONCEBOX_GUARDED_BY(readiness_mutex_);
  SteadyTime readiness_until_ ONCEBOX_GUARDED_BY(readiness_mutex_){};
};

}  // namespace oncebox::server
