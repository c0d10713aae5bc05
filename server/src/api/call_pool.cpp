#include "api/call_pool.hpp"

#include <algorithm>

#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

/// Of all servers together, or twice the budget of one if that is more.
constexpr std::size_t kThreadsAtMost = 256;
/// One part in so many of them is kept for servers that have no call under way.
constexpr std::size_t kKeptForServers = 4;
/// One part in so many of a server's threads is kept for other stores of it.
constexpr std::size_t kKeptForStores = 8;
/// One part in so many of the places, and one more, is kept for lanes in which no call waits. That
/// is more than one caller gets of the others, so what waits for one store keeps no caller from
/// other stores.
constexpr std::size_t kKeptPlaces = 3;
/// Where calls about no store in particular are made: no database server is called so.
constexpr const char* kNoServer = "no server";

}  // namespace

// Every call counts until it ends, also one that hangs: there are as many threads as calls.
CallPool::CallPool(std::size_t threads, std::size_t max_queued, Duration rest, const Clock& clock)
    : threads_at_most_(std::max(kThreadsAtMost, 2 * threads)),
      kept_places_(max_queued / kKeptPlaces + 1),
      places_(max_queued),
      calls_({.limits = {.per_server = threads,
                         .kept_for_idle_stores = std::max<std::size_t>(threads / kKeptForStores, 1),
                         .in_all = threads_at_most_,
                         .kept_for_idle_servers = threads_at_most_ / kKeptForServers},
              .threads = threads_at_most_,
              .threads_kept = 1,
              .rest = rest},
             clock),
      own_lane_(make_lane(kNoServer)) {}

CallPool::~CallPool() { stop(); }

CallPool::Lane CallPool::make_lane(const std::string& server, std::size_t width) {
  return {calls_.add({.server = server, .width = width}), std::make_shared<Count>(0)};
}

engine::StoreCalls::Lane CallPool::make_task(const std::string& server, std::function<void()> run) {
  return calls_.add({.server = server, .run = [run = std::move(run)](engine::CallKind) {
                       run();
                       return engine::CallEnded{.store = engine::CallEnded::Store::unknown};
                     }});
}

CallPool::Place CallPool::take_place(const Lane& lane, const Request& request) {
  FairPlaces::Place place = places_.take(request, *lane.queued > 0 ? kept_places_ : 0);
  if (!place.is_taken()) {
    throw Error(ErrorCode::overloaded,
                "too many calls wait for the store, or too many of this token or address; the "
                "server's server.max_queued_calls says how many may");
  }
  return {std::move(place), lane.queued};
}

void CallPool::Place::leave() noexcept {
  place_.leave();
  if (const auto in_lane = std::exchange(in_lane_, nullptr)) --*in_lane;
}

void CallPool::refuse_after_stop() {
  throw Error(ErrorCode::unavailable, "the server is stopping");
}

}  // namespace oncebox::server
