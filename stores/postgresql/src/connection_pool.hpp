#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <thread>
#include <utility>

#include "budget_state.hpp"
#include "connection.hpp"
#include "oncebox/postgresql/connection_budget.hpp"

namespace oncebox::postgresql {

/// The connections of a store. They are opened when they are needed, within the budget of the
/// server, and kept until they were not used for long; a broken one is replaced by the next call.
/// Every call is safe from any thread.
class ConnectionPool {
 public:
  /// Connections that were not used for long by the clock, which is borrowed, are closed. All pools
  /// of a budget have the same.
  explicit ConnectionPool(const Options& options, const Clock& clock = SystemClock::shared());
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  /// A connection for one call. Goes back to the pool when destroyed, unless it is broken.
  class Lease {
   public:
    Lease(ConnectionPool& pool, std::unique_ptr<Connection> connection) noexcept
        : pool_(&pool), connection_(std::move(connection)) {}
    ~Lease() {
      if (connection_) pool_->give_back(std::move(connection_));
    }
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;

    Connection& operator*() const noexcept { return *connection_; }
    Connection* operator->() const noexcept { return connection_.get(); }

   private:
    ConnectionPool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  /// Throws `timeout` when all connections are in use until the deadline, or what connecting
  /// throws. The limits of a call end the wait, also for a server that is slow to connect.
  [[nodiscard]] Lease acquire(Deadline deadline);

  /// A place in the budget for a connection that is none of the pool's: one that listens.
  class Place {
   public:
    explicit Place(ConnectionPool& pool) noexcept : pool_(&pool) {}
    ~Place() {
      if (pool_ != nullptr) pool_->release_place();
    }
    Place(Place&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
    Place& operator=(Place&&) = delete;

   private:
    ConnectionPool* pool_;
  };
  [[nodiscard]] Place acquire_place(Deadline deadline);
  /// Closes the connection that had it, before the place is given back.
  void close(std::unique_ptr<Connection> connection) const noexcept;

  /// Whether this store is among those of the budget that may listen.
  [[nodiscard]] bool may_listen() const noexcept { return may_listen_; }

  /// Whether a call could not write, for a reason that concerns every write, and nobody has seen
  /// since that writes work again; for health. Calls that succeed do not count: they may have
  /// written nothing, or less than those that fail.
  [[nodiscard]] bool has_failed_to_write() const noexcept { return has_failed_to_write_; }
  void forget_failed_write() noexcept { has_failed_to_write_ = false; }

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] Deadline deadline() const { return deadline_in(options_.call_timeout); }

 private:
  void give_back(std::unique_ptr<Connection> connection) noexcept;
  void release_place() noexcept;
  /// Closes what no store of the budget has used for long. The last of it may still be closing at
  /// the server when it returns: a call waits for it no longer than for one.
  void close_unused(Deadline deadline);
  /// Closes a connection whose place is taken by another: the server must be rid of it first.
  void make_room(std::unique_ptr<Connection> connection, Deadline deadline) const noexcept;
  /// Opens a connection in a place that was taken before; null when the server has no room for it,
  /// but others of ours are at work.
  [[nodiscard]] std::unique_ptr<Connection> open(Deadline deadline);
  /// A connection that a thread opens for a call with limits, which may leave: libpq opens it in
  /// one step. Then it is for others.
  struct Opening;
  /// Null when there is no thread.
  [[nodiscard]] Opening* begin_opening(Deadline deadline);
  void run(Opening& opening, Deadline deadline) noexcept;
  [[nodiscard]] std::unique_ptr<Connection> wait_for(Opening& opening);
  /// Answers or throws as `open`, when it has failed.
  std::unique_ptr<Connection> not_opened(std::exception_ptr why) ONCEBOX_REQUIRES(state_.mutex);
  /// Gives back the place of a connection that is closed.
  void lose_connection() noexcept ONCEBOX_REQUIRES(state_.mutex);
  [[nodiscard]] std::unique_ptr<Connection> take_idle() ONCEBOX_REQUIRES(state_.mutex);
  [[noreturn]] void give_up(const PlaceTurn& turn) ONCEBOX_REQUIRES(state_.mutex);

  const Options options_;
  const Clock& clock_;
  const std::shared_ptr<ConnectionBudget> budget_;
  ConnectionBudget::State& state_;
  bool may_listen_ = false;
  std::atomic<bool> has_failed_to_write_ = false;
  // The deadlines of calls are real.
  detail::TimedCondition freed_{SystemClock::shared()};   ///< a connection or a place is free
  detail::TimedCondition opened_{SystemClock::shared()};  ///< a thread has opened a connection
  PoolShare share_ ONCEBOX_GUARDED_BY(state_.mutex);
  std::list<Opening> openings_ ONCEBOX_GUARDED_BY(state_.mutex);  ///< also those that have ended
};

}  // namespace oncebox::postgresql
