#pragma once

#include <memory>
#include <string_view>

#include "api/served_stores.hpp"
#include "http/router.hpp"
#include "oncebox/operate/dead_notices.hpp"
#include "oncebox/operate/housekeeping.hpp"
#include "oncebox/operate/watchdog.hpp"
#include "webhooks/notice_sender.hpp"

namespace oncebox::server {

/// Keeps the stores clean and watches over them: housekeeping, the watchdog, and notices of dead
/// messages; `GET /v1/health`. Safe from any thread.
class Recovery {
 public:
  /// What it is given must outlive it. The set tells of the stores that are down.
  Recovery(const ApiParts& parts, const StoreSet& set);
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  void add_routes(Router& router);

  /// Takes the place of one of the same name. It is held until its last call has ended.
  void add(const ServedStorePtr& store);
  void remove(std::string_view name);

  /// Shows its figures among the metrics from now on.
  void start();
  /// Waits for the calls that run; none begins any more.
  void stop();

  /// Whom notices of other kinds go to.
  [[nodiscard]] NoticeSender& notices() noexcept { return sender_; }

  /// What the watchdog has found, and the stores that could not be opened.
  [[nodiscard]] WatchdogReport report() const;

 private:
  void show_figures() noexcept;

  const ApiParts& parts_;
  const StoreSet& set_;
  NoticeSender sender_;
  DeadNotices notices_;
  Watchdog watchdog_;
  Housekeeping housekeeping_;
  Timers::Timer showing_;
};

}  // namespace oncebox::server
