#pragma once

#include <memory>

#include "api/hosted_store.hpp"
#include "http/router.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

class Metrics;

/// What the service does with its stores: the routes of `/v1` but for webhooks, and the work behind
/// them (threads that wait for stores, claims that wait, reaping, retention, live statistics).
class Api {
 public:
  /// Everything but the options is borrowed.
  Api(const ServerOptions& options, HostedStores& stores, Metrics& metrics, Logger& logger,
      const Clock& clock);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  void add_routes(Router& router);
  void start();
  /// Waiting claims are answered empty, and event streams end. Calls go on.
  void drain() noexcept;
  /// Whether every store can be reached and has the schema of this version; otherwise why not.
  /// Asked at most once a second: probes come often.
  struct Readiness {
    bool ready = true;
    std::string detail = {};
  };
  [[nodiscard]] Readiness readiness();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::server
