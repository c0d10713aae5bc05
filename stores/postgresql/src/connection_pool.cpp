#include "connection_pool.hpp"

#include <utility>

#include "oncebox/error.hpp"

namespace oncebox::postgresql {

ConnectionPool::ConnectionPool(const Options& options) : options_(options) {
  idle_.reserve(options_.max_connections);
}

std::unique_ptr<Connection> ConnectionPool::take_idle() {
  if (idle_.empty()) return nullptr;
  std::unique_ptr<Connection> connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

ConnectionPool::Lease ConnectionPool::acquire(Deadline deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::unique_ptr<Connection> connection = take_idle();
    if (connection) {
      lock.unlock();
      if (connection->is_alive()) return {*this, std::move(connection)};
      connection.reset();
      lock.lock();
      --open_;
      freed_.notify_one();
      continue;
    }
    if (open_ < options_.max_connections) {
      ++open_;
      lock.unlock();
      connection = open(deadline);
      if (connection) return {*this, std::move(connection)};
      lock.lock();
    }
    if (!idle_.empty() || open_ == 0) continue;
    if (freed_.wait_until(lock, deadline) == std::cv_status::timeout && idle_.empty()) {
      freed_.notify_one();  // it may have been told in the last moment, in place of another
      throw Error(ErrorCode::timeout,
                  "no connection to PostgreSQL became free in time; raise max_connections or "
                  "call_timeout");
    }
  }
}

std::unique_ptr<Connection> ConnectionPool::open(Deadline deadline) {
  try {
    return std::make_unique<Connection>(options_, deadline);
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    --open_;
    if (error.code() == ErrorCode::overloaded && open_ > 0) return nullptr;
    freed_.notify_one();
    throw;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --open_;
    freed_.notify_one();
    throw;
  }
}

void ConnectionPool::give_back(std::unique_ptr<Connection> connection) noexcept {
  const bool is_good = !connection->is_broken() && connection->is_idle();
  if (!is_good) connection.reset();
  const std::lock_guard lock(mutex_);
  if (is_good) {
    idle_.push_back(std::move(connection));
  } else {
    --open_;
  }
  freed_.notify_one();
}

}  // namespace oncebox::postgresql
