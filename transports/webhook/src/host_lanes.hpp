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
/// Requests wait in lanes, one for each host, in the order in which they came. Lanes may belong to
/// groups, one for each tenant. A lane may have so many under way, and all together so many. The
/// group that has the fewest goes first, and of its lanes the one that has the fewest.
///
/// Hosts that hang, even many of them, leave room for the others. Without groups the second half of
/// the places is for lanes that have none. That holds for a group, too, while nothing else is under
/// way, but the last eighth of all places is kept. Otherwise a group may begin more while it has
/// fewer than are free of the rest, so that each leaves to the next as many as it has; of what one
/// may have, the second half is for its lanes that have none. What is kept is for groups that have
/// fewer than four, and fewer than are left: 64 places are enough for four in each of fifteen
/// groups, and for 2, 1 and 1.
class HostLanes {
 public:
  using RequestId = std::uint64_t;
  struct LaneName {
    std::string lane;
    std::string group = {};  ///< empty: it belongs to none

    friend auto operator<=>(const LaneName&, const LaneName&) = default;
  };

  HostLanes(std::size_t max_per_lane, std::size_t max_in_all);
  HostLanes(const HostLanes&) = delete;
  HostLanes& operator=(const HostLanes&) = delete;

  /// `until`: how long it waits at most. Changes nothing when it throws.
  void add(RequestId id, const LaneName& name, SteadyTime until);
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
  /// Those of them in which somebody waits, the next one first.
  template <class Member>
  using Queue = std::set<std::tuple<std::size_t, std::uint64_t, Member*>>;
  /// What decides about the place in a queue.
  struct Turn {
    std::size_t under_way = 0;
    std::uint64_t turn = 0;  ///< of the last that began, or of the first that came
  };
  struct Lane;
  struct Group : Turn {
    Queue<Lane> lanes = {};
    bool shares = false;  ///< false: it stands for all lanes that belong to none
  };
  using Groups = std::map<std::string, Group>;
  struct Lane : Turn {
    Groups::iterator group = {};
    std::list<RequestId> waiting = {};
  };
  using Lanes = std::map<LaneName, Lane>;
  using Expiries = std::set<std::pair<SteadyTime, RequestId>>;
  struct Request {
    Lanes::iterator lane;
    std::list<RequestId>::iterator place = {};  ///< while it waits
    SteadyTime until{};
    bool waits = true;
  };

  template <class Member>
  [[nodiscard]] static Queue<Member>::value_type place_of(Member& member) {
    return {member.under_way, member.turn, &member};
  }
  [[nodiscard]] Groups::iterator group_of(const LaneName& name);
  [[nodiscard]] Lanes::iterator lane_of(const LaneName& name, Groups::iterator group);
  [[nodiscard]] bool may_begin(const Group& group, const Lane& lane) const noexcept;
  RequestId begin_first_of(Lane& lane) noexcept;
  void stop_waiting(RequestId id, Request& request) noexcept;
  /// Applies a change of what its place in the queue depends on, if it stands there.
  template <class Member, class Change>
  static void requeue(Queue<Member>& queue, Member& member, Change change) noexcept;
  void forget_unused(Lanes::iterator lane) noexcept;
  void forget_unused(Groups::iterator group) noexcept;

  const std::size_t max_per_lane_;
  const std::size_t max_in_all_;
  const std::size_t first_half_;
  const std::size_t kept_;
  Groups groups_;
  Lanes lanes_;
  Queue<Group> queue_;
  std::unordered_map<RequestId, Request> requests_;
  Expiries expiries_;  // of those that wait
  std::size_t under_way_ = 0;
  std::uint64_t turns_ = 0;
};

}  // namespace oncebox::webhook
