#include "host_lanes.hpp"

#include <utility>

namespace oncebox::webhook {

void HostLanes::add(RequestId id, const std::string& lane_name, SteadyTime until) {
  // Whatever needs memory comes first.
  std::list<RequestId> place{id};
  Expiries expiry{{until, id}};
  const auto [lane, is_new] = lanes_.try_emplace(lane_name);
  if (is_new) lane->second.turn = ++turns_;
  Queue queued;
  try {
    if (lane->second.waiting.empty()) queued.insert(place_of(lane->second));
    requests_.emplace(id, Request{.lane = lane, .place = place.begin(), .until = until});
  } catch (...) {
    forget_unused(lane);
    throw;
  }
  lane->second.waiting.splice(lane->second.waiting.end(), place);
  expiries_.merge(expiry);
  queue_.merge(queued);
}

std::optional<HostLanes::RequestId> HostLanes::begin_next() {
  if (queue_.empty()) return std::nullopt;
  Lane& lane = *std::get<Lane*>(*queue_.begin());
  if (!may_begin(lane)) return std::nullopt;  // nor may those behind, which have more under way
  const RequestId id = lane.waiting.front();
  stop_waiting(id, requests_.at(id));
  ++under_way_;
  requeue(lane, [&] {
    ++lane.under_way;
    lane.turn = ++turns_;
  });
  return id;
}

bool HostLanes::may_begin(const Lane& lane) const noexcept {
  const std::size_t first_half = max_in_all_ - max_in_all_ / 2;
  return lane.under_way < max_per_lane_ &&
         under_way_ < (lane.under_way == 0 ? max_in_all_ : first_half);
}

void HostLanes::end(RequestId id) noexcept {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Request& request = found->second;
  const Lanes::iterator lane = request.lane;
  if (request.waits) {
    stop_waiting(id, request);
  } else {
    --under_way_;
    requeue(lane->second, [&] { --lane->second.under_way; });
  }
  requests_.erase(found);
  forget_unused(lane);
}

std::optional<HostLanes::RequestId> HostLanes::take_expired(SteadyTime now) noexcept {
  if (expiries_.empty() || expiries_.begin()->first > now) return std::nullopt;
  const RequestId id = expiries_.begin()->second;
  end(id);
  return id;
}

std::optional<SteadyTime> HostLanes::next_expiry() const noexcept {
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

void HostLanes::stop_waiting(RequestId id, Request& request) noexcept {
  Lane& lane = request.lane->second;
  lane.waiting.erase(request.place);
  if (lane.waiting.empty()) queue_.erase(place_of(lane));
  expiries_.erase({request.until, id});
  request.waits = false;
}

template <class Change>
void HostLanes::requeue(Lane& lane, Change change) noexcept {
  auto node = queue_.extract(place_of(lane));
  change();
  if (node.empty()) return;
  node.value() = place_of(lane);
  queue_.insert(std::move(node));
}

void HostLanes::forget_unused(Lanes::iterator lane) noexcept {
  if (lane->second.waiting.empty() && lane->second.under_way == 0) lanes_.erase(lane);
}

}  // namespace oncebox::webhook
