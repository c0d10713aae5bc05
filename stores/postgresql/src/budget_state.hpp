#pragma once

#include <deque>
#include <limits>
#include <mutex>
#include <vector>

#include "connection_pool.hpp"

namespace oncebox::postgresql {

/// Somebody who waits for a place in the budget.
struct ConnectionPool::Turn {
  ConnectionPool& pool;
  const Wanted wanted;
  bool is_queued = false;
  bool is_granted = false;
  std::unique_ptr<Connection> connection = nullptr;  ///< what had the place; null: nothing
  bool is_own = false;                               ///< the connection is one of this pool
};

/// What the pools of a budget share; their lock, too.
struct ConnectionBudget::State {
  /// A budget that nobody shares has no limit: the pool's own counts.
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  std::size_t limit = kNoLimit;
  mutable std::mutex mutex;
  std::size_t open = 0;
  std::size_t may_listen = 0;  ///< stores
  std::vector<ConnectionPool*> pools;
  std::deque<ConnectionPool::Turn*> turns;  ///< while there are any, no connection is idle
  ConnectionPool::SteadyTime next_look{};   ///< for connections that nobody uses

  [[nodiscard]] bool is_shared() const noexcept { return limit != kNoLimit; }
};

}  // namespace oncebox::postgresql
