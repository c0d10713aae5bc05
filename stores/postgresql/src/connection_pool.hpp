#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "connection.hpp"

namespace oncebox::postgresql {

/// The connections of a store. They are opened when they are needed and kept; a broken one is
/// replaced by the next call. Every call is safe from any thread.
class ConnectionPool {
 public:
  explicit ConnectionPool(const Options& options);

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

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] Deadline deadline() const {
    return std::chrono::steady_clock::now() + options_.call_timeout;
  }

 private:
  void give_back(std::unique_ptr<Connection> connection) noexcept;
  [[nodiscard]] std::unique_ptr<Connection> take_idle();
  /// Opens a connection in a place that was counted before; null when the server has no room for
  /// it, but others of ours are at work.
  [[nodiscard]] std::unique_ptr<Connection> open(Deadline deadline);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::size_t open_ = 0;  ///< idle, in use, or being opened
};

}  // namespace oncebox::postgresql
