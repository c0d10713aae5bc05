#include "host_lanes.hpp"

#include <algorithm>
#include <utility>

namespace oncebox::webhook {

namespace {

/// One part in so many of the places is kept for groups that have few.
constexpr std::size_t kKeptPart = 8;
/// A group that has fewer may take them from what is kept.
constexpr std::size_t kFewPlaces = 4;
/// How often the places of a group count where a lane that has some asks for another one.
constexpr std::size_t kWeightOfMore = 3;

/// At least one, unless there is no other.
std::size_t kept_of(std::size_t places) {
  return places < 2 ? 0 : (places + kKeptPart - 1) / kKeptPart;
}

}  // namespace

HostLanes::HostLanes(std::size_t max_per_lane, std::size_t max_in_all)
    : max_per_lane_(max_per_lane),
      max_in_all_(max_in_all),
      first_half_(max_in_all - max_in_all / 2),
      kept_(kept_of(max_in_all)) {}

void HostLanes::add(RequestId id, const LaneName& name, SteadyTime until) {
  // Whatever needs memory comes first.
  std::list<RequestId> place{id};
  Expiries expiry{{until, id}};
  const Groups::iterator group = group_of(name);
  const Lanes::iterator lane = lane_of(name, group);
  Queue<Lane> queued_lane;
  Queue<Group> queued_group;
  try {
    if (lane->second.waiting.empty()) queued_lane.insert(place_of(lane->second));
    if (group->second.lanes.empty()) queued_group.insert(place_of(group->second));
    requests_.emplace(id, Request{.lane = lane, .place = place.begin(), .until = until});
  } catch (...) {
    forget_unused(lane);
    throw;
  }
  lane->second.waiting.splice(lane->second.waiting.end(), place);
  expiries_.merge(expiry);
  group->second.lanes.merge(queued_lane);
  queue_.merge(queued_group);
}

HostLanes::Groups::iterator HostLanes::group_of(const LaneName& name) {
  const auto [group, is_new] = groups_.try_emplace(name.group);
  if (is_new) {
    group->second.turn = ++turns_;
    group->second.shares = !name.group.empty();
  }
  return group;
}

HostLanes::Lanes::iterator HostLanes::lane_of(const LaneName& name, Groups::iterator group) {
  try {
    const auto [lane, is_new] = lanes_.try_emplace(name);
    if (is_new) {
      lane->second.turn = ++turns_;
      lane->second.group = group;
    }
    return lane;
  } catch (...) {
    forget_unused(group);
    throw;
  }
}

std::optional<HostLanes::RequestId> HostLanes::begin_next() {
  if (under_way_ == max_in_all_) return std::nullopt;
  for (const auto& [under_way, turn, group] : queue_) {
    // If this one may not begin, those behind it may not, which have more under way.
    Lane& lane = *std::get<Lane*>(*group->lanes.begin());
    if (may_begin(*group, lane)) return begin_first_of(lane);
  }
  return std::nullopt;
}

bool HostLanes::may_begin(const Group& group, const Lane& lane) const noexcept {
  if (lane.under_way >= max_per_lane_) return false;
  const bool has_none = lane.under_way == 0;
  if (!group.shares) return has_none || under_way_ < first_half_;
  const bool is_alone = group.under_way == under_way_;
  if (is_alone) return under_way_ < (has_none ? max_in_all_ - kept_ : first_half_);
  // With n places to share, a group has n/2 when it has as many as are left: n/2 = n - n/2. Counted
  // three times that is so at n/4, the half of its part: 3 * n/4 = n - n/4.
  const std::size_t free = max_in_all_ - under_way_;
  const std::size_t shared = free - std::min(free, kept_);
  const std::size_t few = std::min(free, kFewPlaces);
  return group.under_way * (has_none ? 1 : kWeightOfMore) < std::max(shared, few);
}

HostLanes::RequestId HostLanes::begin_first_of(Lane& lane) noexcept {
  const RequestId id = lane.waiting.front();
  stop_waiting(id, requests_.find(id)->second);
  ++under_way_;
  Group& group = lane.group->second;
  const auto begin = [turn = ++turns_](Turn& member) {
    ++member.under_way;
    member.turn = turn;
  };
  requeue(group.lanes, lane, begin);
  requeue(queue_, group, begin);
  return id;
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
    Group& group = lane->second.group->second;
    const auto end = [](Turn& member) { --member.under_way; };
    requeue(group.lanes, lane->second, end);
    requeue(queue_, group, end);
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
  Group& group = lane.group->second;
  lane.waiting.erase(request.place);
  if (lane.waiting.empty()) group.lanes.erase(place_of(lane));
  if (group.lanes.empty()) queue_.erase(place_of(group));
  expiries_.erase({request.until, id});
  request.waits = false;
}

template <class Member, class Change>
void HostLanes::requeue(Queue<Member>& queue, Member& member, Change change) noexcept {
  auto node = queue.extract(place_of(member));
  change(member);
  if (node.empty()) return;
  node.value() = place_of(member);
  queue.insert(std::move(node));
}

void HostLanes::forget_unused(Lanes::iterator lane) noexcept {
  const Groups::iterator group = lane->second.group;
  if (lane->second.waiting.empty() && lane->second.under_way == 0) lanes_.erase(lane);
  forget_unused(group);
}

void HostLanes::forget_unused(Groups::iterator group) noexcept {
  if (group->second.lanes.empty() && group->second.under_way == 0) groups_.erase(group);
}

}  // namespace oncebox::webhook
