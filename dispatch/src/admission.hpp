#pragma once

#include <functional>
#include <vector>

#include "claim_hints.hpp"
#include "handler_calls.hpp"
#include "in_flight.hpp"
#include "oncebox/clock.hpp"
#include "ready_messages.hpp"
#include "routes.hpp"
#include "worker_pool.hpp"

namespace oncebox::dispatcher {

/// The way of claimed messages to the workers. What nobody handles, what is paused, and what killed
/// too many workers gets its verdict here. Safe from any thread.
class Admission {
 public:
  struct Parts {
    Routes& routes;
    RoomHints& room;
    ReadyMessages& ready;
    WorkerPool& workers;
    HandlerCalls& calls;
    const Clock& clock;
  };

  /// Answers the place in line of one more message.
  using Place = std::function<double()>;

  explicit Admission(const Parts& parts) : parts_(parts) {}

  /// Takes these in, which came from `origin` and are to be in its table. Without `place` all have
  /// the same.
  void take_in(InFlightTable& table, Origin& origin, std::vector<ClaimedMessage>&& claimed,
               TimePoint lease_until, const Place& place = {});

  /// Gives back what waits in the buffer and is paused.
  void release_paused();

 private:
  const Parts parts_;
};

}  // namespace oncebox::dispatcher
