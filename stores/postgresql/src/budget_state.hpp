#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "connection.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/postgresql/connection_budget.hpp"

namespace oncebox::postgresql {

/// The connections of one pool. The lock of the budget guards it.
struct PoolShare {
  struct Idle {
    std::unique_ptr<Connection> connection;
    SteadyTime since;
  };

  const std::chrono::seconds idle_timeout;
  std::vector<Idle> idle = {};    ///< the one used last is used next
  std::size_t open = 0;           ///< idle, in use, or being opened
  std::size_t waiting = 0;        ///< calls that wait for a place to open one
  detail::TimedCondition& freed;  ///< the pool's: a call of it may go on
};

/// A call that waits for a place in the budget. The lock of the budget guards it.
struct PlaceTurn {
  enum class Wanted { connection, place };

  PoolShare& pool;
  const Wanted wanted;
  bool is_queued = false;
  bool is_granted = false;
  std::unique_ptr<Connection> connection = nullptr;  ///< the one that had the place; may be null
  bool is_own = false;                               ///< the connection is one of this pool
};

/// What the pools of a budget share; their lock, too.
struct ConnectionBudget::State {
  /// A budget that nobody shares has no limit: the pool's own counts.
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  std::size_t limit = kNoLimit;  ///< set before the budget is used
  detail::Mutex mutex;
  std::size_t open ONCEBOX_GUARDED_BY(mutex) = 0;
  std::size_t may_listen ONCEBOX_GUARDED_BY(mutex) = 0;  ///< stores
  std::vector<PoolShare*> pools ONCEBOX_GUARDED_BY(mutex);
  /// While there are any, no connection is idle.
  std::deque<PlaceTurn*> turns ONCEBOX_GUARDED_BY(mutex);
  SteadyTime next_look ONCEBOX_GUARDED_BY(mutex){};  ///< for connections that nobody uses

  [[nodiscard]] bool is_shared() const noexcept { return limit != kNoLimit; }

  /// Takes a place for a turn, if need be from a connection that nobody uses, which is then in
  /// `unused`. False when there is none.
  [[nodiscard]] bool take_place(const PlaceTurn& turn, std::unique_ptr<Connection>& unused)
      ONCEBOX_REQUIRES(mutex);
  void queue(PlaceTurn& turn) ONCEBOX_REQUIRES(mutex);
  void forget(const PlaceTurn& turn) noexcept ONCEBOX_REQUIRES(mutex);
  /// Gives a place that a call of this pool had to the next turn.
  void free_place(PoolShare& of) noexcept ONCEBOX_REQUIRES(mutex);
};

}  // namespace oncebox::postgresql
