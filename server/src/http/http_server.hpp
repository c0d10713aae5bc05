#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "http/authenticator.hpp"
#include "http/http_service.hpp"
#include "http/memory_budget.hpp"
#include "http/router.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

/// Listens, and lets handlers answer: all of HTTP, and nothing of stores. Every call but the
/// destructor is safe from any thread.
class HttpServer {
 public:
  /// All but the options are borrowed; the router must not change once it listens. Reads the
  /// certificates; throws `invalid_argument` for those that cannot be used, and for an address
  /// beyond loopback that nothing guards.
  HttpServer(const ServerOptions& options, const Router& router, const Authenticator& authenticator,
             Logger& logger, HttpObserver& observer, const Clock& clock);
  /// Stops at once.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Throws `unavailable` when the address cannot be had.
  void start();
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Reads the certificates again, for new connections; when that throws, the old ones stay.
  void reload_certificates();

  /// No new connections; those that are idle are closed, and the others after their next answer.
  void drain();
  [[nodiscard]] bool is_draining() const noexcept;

  /// What clients make it hold.
  [[nodiscard]] const MemoryBudget& memory() const noexcept;

  /// Drains, waits for what is under way, and cuts off what is left then. Answers how many requests
  /// that were. May be called again.
  std::size_t stop(Duration within);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::server
