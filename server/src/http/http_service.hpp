#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "http/request_gate.hpp"
#include "http/response_head.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

/// Hears what the transport does, for metrics. Safe from any thread, and does not throw.
class HttpObserver {
 public:
  struct Answered {
    std::string_view method;
    std::string_view route;  ///< the pattern, or "none"
    int status = 0;
    std::chrono::nanoseconds took{};
    std::size_t bytes_in = 0;
    std::size_t bytes_out = 0;
  };

  virtual ~HttpObserver() = default;
  virtual void on_request(const Answered& answered) noexcept = 0;
  virtual void on_connections(std::ptrdiff_t change) noexcept = 0;
  virtual void on_refused_connection() noexcept = 0;
};

/// What the connections of a server share. Safe from any thread.
class HttpService {
 public:
  /// All but the options are borrowed.
  HttpService(const ServerOptions& options, const Router& router,
              const Authenticator& authenticator, Logger& logger, HttpObserver& observer,
              const Clock& clock);

  [[nodiscard]] const HttpLimits& limits() const noexcept { return limits_; }
  /// By which deadlines are kept and requests are timed.
  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
  [[nodiscard]] const RequestGate& gate() const noexcept { return gate_; }
  [[nodiscard]] const ResponseHeads& heads() const noexcept { return heads_; }

  /// False when it had begun already.
  bool begin_drain() noexcept { return !is_draining_.exchange(true); }
  [[nodiscard]] bool is_draining() const noexcept { return is_draining_; }

  /// What becomes of a new connection: served, told that there are too many, or, when too many are
  /// being told that, just closed.
  enum class Admission { served, refused, dropped };
  [[nodiscard]] Admission admit_connection() noexcept;
  void release_connection(Admission admission) noexcept;
  /// Limits how long `wait_for_connections` takes from now on, also a wait under way. A later call
  /// can shorten the limit, not extend it.
  void limit_wait(Duration within);
  /// Waits until the last that was served is gone; false when it takes too long.
  bool wait_for_connections();

  /// Counts the bytes of bodies that are held at a time, over all connections; false, and counts
  /// nothing, when they would be too many. So clients without a token cannot fill the memory.
  [[nodiscard]] bool hold_body(std::size_t bytes) noexcept;
  void release_body(std::size_t bytes) noexcept { held_bodies_ -= bytes; }

  /// Writes a request into the access log and the metrics. `cause` is that of a failure.
  void record(const Request& request, const HttpObserver::Answered& answered,
              const std::string& cause) noexcept;

 private:
  void write(LogLevel level, std::string_view text, std::span<const LogField> fields,
             const Request& request) noexcept;

  const HttpLimits limits_;
  const AccessLog access_log_;
  const RequestGate gate_;
  const ResponseHeads heads_;
  Logger& logger_;
  HttpObserver& observer_;
  const Clock& clock_;
  std::atomic<bool> is_draining_ = false;
  std::atomic<std::size_t> held_bodies_ = 0;

  detail::Mutex mutex_;
  detail::TimedCondition none_left_{clock_};
  std::size_t served_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::size_t refused_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  SteadyTime give_up_at_ ONCEBOX_GUARDED_BY(mutex_) = SteadyTime::max();
};

}  // namespace oncebox::server
