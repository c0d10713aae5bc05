#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "oncebox/clock.hpp"
#include "oncebox/internal/descriptor.hpp"

struct pg_conn;

/// How a wait for the server ends before the server has answered.
namespace oncebox::postgresql {

/// Asks the server to give up what a connection works on; whether it has done so in time, its
/// answer tells. libpq asks over a connection of its own, and for as long as the network takes,
/// without an end that we could set. So a thread does it, for which nobody waits: it owns
/// everything that it uses, and there are never many of them.
class Cancellation {
 public:
  explicit Cancellation(pg_conn* connection);

  /// Whether the server has taken the request. Until then it may still arrive, and cancel what the
  /// connection does next.
  [[nodiscard]] bool has_arrived(SteadyTime deadline) const;

  /// How long the server has for its answer.
  static constexpr std::chrono::milliseconds kGrace{500};
  [[nodiscard]] SteadyTime deadline() const noexcept { return deadline_; }

 private:
  class Request;

  std::shared_ptr<Request> request_;  ///< null when it could not be made
  SteadyTime deadline_;
};

/// A file descriptor that can be read once a stop is requested. Where there is none, a stop is seen
/// at the deadline only.
class StopSignal {
 public:
  explicit StopSignal(const std::stop_token& stop);
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

 private:
  const detail::Descriptor descriptor_;
  const std::stop_callback<std::function<void()>> on_stop_;
};

}  // namespace oncebox::postgresql
