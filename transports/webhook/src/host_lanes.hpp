#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "oncebox/clock.hpp"

namespace oncebox::webhook {

/// Decides which request begins next: a value without threads and I/O.
///
/// Requests wait in lanes, one for each host, in the order in which they came. A lane may have so
/// many under way, and all together so many. The lane that has the fewest goes first, and the
/// second half of the places is for lanes that have none: so hosts that hang, even many of them,
/// leave room for the others.
class HostLanes {
 public:
  using RequestId = std::uint64_t;

  HostLanes(std::size_t max_per_lane, std::size_t max_in_all)
      : max_per_lane_(max_per_lane), max_in_all_(max_in_all) {}
  HostLanes(const HostLanes&) = delete;
  HostLanes& operator=(const HostLanes&) = delete;

  /// `until`: how long it waits at most. Changes nothing when it throws.
  void add(RequestId id, const std::string& lane, SteadyTime until);
  /// Lets one begin; nothing when none may.
  [[nodiscard]] std::optional<RequestId> begin_next();
  /// Of one that waits, or is under way: forgets it, and makes room for another.
  void end(RequestId id) noexcept;
  /// One that has waited for too long; it is forgotten. Nothing when there is none.
  [[nodiscard]] std::optional<RequestId> take_expired(SteadyTime now) noexcept;

  /// When the next one will have waited for too long.
  [[nodiscard]] std::optional<SteadyTime> next_expiry() const noexcept;
  [[nodiscard]] std::size_t under_way() const noexcept { return under_way_; }
  [[nodiscard]] bool empty() const noexcept { return requests_.empty(); }

 private:
  struct Lane {
    std::list<RequestId> waiting = {};
    std::size_t under_way = 0;
    std::uint64_t turn = 0;  ///< of the last that began, or of its first
  };
  using Lanes = std::map<std::string, Lane>;
  using Queue = std::set<std::tuple<std::size_t, std::uint64_t, Lane*>>;
  using Expiries = std::set<std::pair<SteadyTime, RequestId>>;
  struct Request {
    Lanes::iterator lane;
    std::list<RequestId>::iterator place = {};  ///< while it waits
    SteadyTime until{};
    bool waits = true;
  };

  [[nodiscard]] static Queue::value_type place_of(Lane& lane) {
    return {lane.under_way, lane.turn, &lane};
  }
  [[nodiscard]] bool may_begin(const Lane& lane) const noexcept;
  void stop_waiting(RequestId id, Request& request) noexcept;
  /// Applies a change of what its place in the queue depends on, if it stands there.
  template <class Change>
  void requeue(Lane& lane, Change change) noexcept;
  void forget_unused(Lanes::iterator lane) noexcept;

  const std::size_t max_per_lane_;
  const std::size_t max_in_all_;
  Lanes lanes_;
  Queue queue_;  // the lanes in which somebody waits
  std::unordered_map<RequestId, Request> requests_;
  Expiries expiries_;  // of those that wait
  std::size_t under_way_ = 0;
  std::uint64_t turns_ = 0;
};

}  // namespace oncebox::webhook
