#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "http/memory_budget.hpp"
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
  /// A connection had to go so that others are served: for want of `places` or of `memory`.
  virtual void on_ended_connection(std::string_view want) noexcept = 0;
};

class HttpService;

/// The place of a connection among those of the server, and what it costs in memory. Gives both
/// back when it is released or destroyed; not after its service.
class ConnectionPlace {
 public:
  /// Served, told that there are too many, or, when too many are being told that, just closed.
  enum class Kind { none, served, refused };

  ConnectionPlace() noexcept = default;
  ConnectionPlace(HttpService& service, Kind kind, std::shared_ptr<ClientAddress> address,
                  MemoryHold memory) noexcept
      : service_(&service), kind_(kind), address_(std::move(address)), memory_(std::move(memory)) {}
  ~ConnectionPlace() { release(); }
  ConnectionPlace(ConnectionPlace&& other) noexcept
      : service_(other.service_),
        kind_(std::exchange(other.kind_, Kind::none)),
        address_(std::move(other.address_)),
        memory_(std::move(other.memory_)) {}
  ConnectionPlace& operator=(ConnectionPlace&& other) noexcept;

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] MemoryHold& memory() noexcept { return memory_; }
  [[nodiscard]] const MemoryHold& memory() const noexcept { return memory_; }
  /// Stays when it is released. Null: nobody counts what its clients hold.
  [[nodiscard]] const std::shared_ptr<ClientAddress>& address() const noexcept { return address_; }
  void release() noexcept;

 private:
  HttpService* service_ = nullptr;
  Kind kind_ = Kind::none;
  std::shared_ptr<ClientAddress> address_;
  MemoryHold memory_;
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

  /// The address of a client as all of its connections share it. Those of an IPv6 network (/64)
  /// are one, because a client has them all.
  [[nodiscard]] std::shared_ptr<ClientAddress> address_of(const std::string& peer);
  /// What the requests with a token of this name make the server hold, whatever their address.
  [[nodiscard]] std::shared_ptr<MemoryAccount> account_of(const std::string& principal);
  /// A place for a connection that costs so many bytes; none when there are too many connections,
  /// or no memory is left for this one.
  [[nodiscard]] ConnectionPlace admit(const std::shared_ptr<ClientAddress>& address,
                                      std::size_t bytes) noexcept;
  /// How many connections there can be of which each costs so many bytes.
  [[nodiscard]] std::size_t places(std::size_t bytes) const noexcept;
  /// A place for a connection that is told that there are too many; none when too many are.
  [[nodiscard]] ConnectionPlace refuse() noexcept;
  /// Tells the observer that a connection had to go.
  void note_ended(std::string_view want) noexcept { observer_.on_ended_connection(want); }
  /// Limits how long `wait_for_connections` takes from now on, also a wait under way. A later call
  /// can shorten the limit, not extend it.
  void limit_wait(Duration within);
  /// Waits until the last that was served is gone; false when it takes too long.
  bool wait_for_connections();

  [[nodiscard]] const MemoryBudget& memory() const noexcept { return *memory_; }

  /// Writes a request into the access log and the metrics. `cause` is that of a failure.
  void record(const Request& request, const HttpObserver::Answered& answered,
              const std::string& cause) noexcept;

 private:
  friend class ConnectionPlace;

  void release(ConnectionPlace::Kind kind, ClientAddress* address) noexcept;
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
  const std::shared_ptr<MemoryBudget> memory_;

  detail::Mutex mutex_;
  detail::TimedCondition none_left_{clock_};
  std::size_t served_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::size_t refused_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  /// Of the connections that are served.
  std::map<std::string, std::weak_ptr<ClientAddress>, std::less<>> addresses_
      ONCEBOX_GUARDED_BY(mutex_);
  /// By the names of tokens; of these there are only as many as the server was ever given.
  std::map<std::string, std::shared_ptr<MemoryAccount>, std::less<>> principals_
      ONCEBOX_GUARDED_BY(mutex_);
  SteadyTime give_up_at_ ONCEBOX_GUARDED_BY(mutex_) = SteadyTime::max();
};

}  // namespace oncebox::server
