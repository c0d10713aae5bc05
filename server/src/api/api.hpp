#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/hosted_store.hpp"
#include "http/router.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

class CallPool;
class Metrics;

/// What the service does with its stores: the routes of `/v1` but for webhooks, and the work behind
/// them (threads that wait for stores, claims that wait, reaping, retention, live statistics).
class Api {
 public:
  /// Everything but the options is borrowed. The stores are those of the set, from when each comes
  /// until it is removed.
  Api(const ServerOptions& options, StoreSet& stores, Metrics& metrics, Logger& logger,
      const Clock& clock);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  void add_routes(Router& router);
  void start();
  /// Waiting claims are answered empty, and event streams end. Calls go on.
  void drain() noexcept;

  /// An empty name means the default. Throws `not_found`, and `unavailable` while it is down.
  [[nodiscard]] HostedStorePtr find_store(std::string_view name);

  /// The threads for what would hold up a thread of the sockets.
  [[nodiscard]] CallPool& calls() noexcept;

  /// Whether the default store can be used, or any where there is no default, and how many others
  /// are known to be down. The default store is asked, at most once a second, because probes come
  /// often; one that does not answer within that time cannot be used.
  struct Readiness {
    bool ready = true;
    /// Some are down, the stores are those of an earlier discovery, or `/v1/health` has something
    /// to say.
    bool degraded = false;
    std::size_t stores_down = 0;
    std::string detail = {};  ///< why; for the log
  };
  [[nodiscard]] Readiness readiness();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::server
