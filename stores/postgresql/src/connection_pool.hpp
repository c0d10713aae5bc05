#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "connection.hpp"
#include "oncebox/postgresql/connection_budget.hpp"

namespace oncebox::postgresql {

/// The connections of a store. They are opened when they are needed, within the budget of the
/// server, and kept until they were not used for long; a broken one is replaced by the next call.
/// Every call is safe from any thread.
class ConnectionPool {
 public:
  explicit ConnectionPool(const Options& options);
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
  /// throws.
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

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] Deadline deadline() const {
    return std::chrono::steady_clock::now() + options_.call_timeout;
  }

 private:
  friend class ConnectionBudget;
  using SteadyTime = std::chrono::steady_clock::time_point;

  struct Idle {
    std::unique_ptr<Connection> connection;
    SteadyTime since;
  };
  enum class Wanted { connection, place };
  struct Turn;

  void give_back(std::unique_ptr<Connection> connection) noexcept;
  void release_place() noexcept;
  /// Closes what no store of the budget has used for long.
  void close_unused();
  /// Closes a connection whose place is taken by another: the server must be rid of it first.
  void make_room(std::unique_ptr<Connection> connection, Deadline deadline) const noexcept;
  /// Opens a connection in a place that was taken before; null when the server has no room for it,
  /// but others of ours are at work.
  [[nodiscard]] std::unique_ptr<Connection> open(Deadline deadline);

  // All of these expect the budget's lock to be held.
  [[nodiscard]] std::unique_ptr<Connection> take_idle();
  /// Takes a place, if need be from a connection that nobody uses, which is then in `unused`.
  [[nodiscard]] bool take_place(Wanted wanted, std::unique_ptr<Connection>& unused);
  void free_place() noexcept;
  void forget(const Turn& turn) noexcept;
  [[noreturn]] void give_up(const Turn& turn);

  const Options options_;
  const std::shared_ptr<ConnectionBudget> budget_;
  ConnectionBudget::State& state_;
  bool may_listen_ = false;
  std::condition_variable freed_;  ///< with the budget's lock
  std::vector<Idle> idle_;         ///< the one used last is used next
  std::size_t open_ = 0;           ///< idle, in use, or being opened
  std::size_t waiting_ = 0;        ///< calls that wait for a place to open one
};

}  // namespace oncebox::postgresql
