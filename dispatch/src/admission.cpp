#include "admission.hpp"

#include <algorithm>
#include <utility>

namespace oncebox::dispatcher {

void Admission::take_in(InFlightTable& table, Origin& origin, std::vector<ClaimedMessage>&& claimed,
                        TimePoint lease_until, const Place& place) {
  std::vector<InFlight*> runnable;
  std::vector<double> places(claimed.size());  // asked for before anything is taken in
  runnable.reserve(claimed.size());
  if (place) std::ranges::generate(places, place);
  const auto admitted = table.admit(std::move(claimed), lease_until);
  const TimePoint now = parts_.clock.now();
  for (InFlight* message : admitted) {
    if (message == nullptr) continue;
    message->origin = &origin;
    const Message& content = message->claimed->message;
    message->route = parts_.routes.find(content.topic.str());
    // The call of such a handler has a copy.
    const bool has_copy = message->route != nullptr && message->route->async_handler() != nullptr;
    if (has_copy) message->bytes *= 2;
    parts_.room.on_admitted(origin, message->bytes);
    if (message->route == nullptr) {
      WorkerPool::finish(*message, parts_.calls.refuse(*message->claimed, origin.store));
    } else if (parts_.routes.is_paused(content.topic.str())) {
      WorkerPool::finish(*message, Release{});
    } else if (auto death = parts_.calls.bury(*message->claimed, origin.store)) {
      WorkerPool::finish(*message, std::move(*death));
    } else {
      message->route->admit(now);
      message->place = places[runnable.size()];
      runnable.push_back(message);
    }
  }
  if (!parts_.ready.push(runnable)) {
    for (InFlight* message : runnable) parts_.workers.give_back(*message);
  }
  // Once more, for a pause that came in between.
  release_paused();
}

void Admission::release_paused() {
  if (!parts_.routes.any_paused()) return;
  const auto paused = parts_.ready.extract([&](const InFlight& message) {
    return parts_.routes.is_paused(message.claimed->message.topic.str());
  });
  for (InFlight* message : paused) parts_.workers.give_back(*message);
}

}  // namespace oncebox::dispatcher
