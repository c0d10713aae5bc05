#include "connection_pool.hpp"

#include <algorithm>
#include <utility>

#include "budget_state.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::postgresql {

namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kLookInterval = 1s;
/// How long to wait at most until the server is rid of a connection.
constexpr auto kClosingTime = 1s;

}  // namespace

ConnectionBudget::ConnectionBudget(std::size_t connections) : ConnectionBudget(OfOnePool{}) {
  require_in_range("connections of a budget", connections, 1, 10'000);
  state_->limit = connections;
}

ConnectionBudget::ConnectionBudget(OfOnePool /*only*/) : state_(std::make_unique<State>()) {}

ConnectionBudget::~ConnectionBudget() = default;

std::size_t ConnectionBudget::connections() const noexcept { return state_->limit; }

std::size_t ConnectionBudget::open() const {
  const std::lock_guard lock(state_->mutex);
  return state_->open;
}

ConnectionPool::ConnectionPool(const Options& options)
    : options_(options),
      budget_(options.budget ? options.budget
                             : std::shared_ptr<ConnectionBudget>(
                                   new ConnectionBudget(ConnectionBudget::OfOnePool{}))),
      state_(*budget_->state_) {
  idle_.reserve(options_.max_connections);
  const std::lock_guard lock(state_.mutex);
  state_.pools.push_back(this);
  may_listen_ = !state_.is_shared() || state_.may_listen + 1 <= state_.limit / 2;
  if (may_listen_) ++state_.may_listen;
}

ConnectionPool::~ConnectionPool() {
  std::vector<Idle> idle;
  {
    const std::lock_guard lock(state_.mutex);
    std::erase(state_.pools, this);
    if (may_listen_) --state_.may_listen;
    idle.swap(idle_);
  }
  for (Idle& unused : idle) {
    close(std::move(unused.connection));
    release_place();
  }
}

std::unique_ptr<Connection> ConnectionPool::take_idle() {
  if (idle_.empty()) return nullptr;
  std::unique_ptr<Connection> connection = std::move(idle_.back().connection);
  idle_.pop_back();
  return connection;
}

bool ConnectionPool::take_place(Wanted wanted, std::unique_ptr<Connection>& unused) {
  if (!state_.turns.empty()) return false;
  if (state_.open < state_.limit) {
    ++state_.open;
  } else {
    ConnectionPool* longest = nullptr;
    for (ConnectionPool* pool : state_.pools) {
      if (pool->idle_.empty()) continue;
      const SteadyTime since = pool->idle_.front().since;
      if (longest == nullptr || since < longest->idle_.front().since) longest = pool;
    }
    if (longest == nullptr) return false;
    unused = std::move(longest->idle_.front().connection);
    longest->idle_.erase(longest->idle_.begin());
    --longest->open_;
  }
  if (wanted == Wanted::connection) ++open_;
  return true;
}

void ConnectionPool::free_place() noexcept {
  if (state_.turns.empty()) {
    --state_.open;
    freed_.notify_all();
    return;
  }
  Turn& turn = *state_.turns.front();
  state_.turns.pop_front();
  turn.is_granted = true;
  if (turn.wanted == Wanted::connection) {
    --turn.pool.waiting_;
    ++turn.pool.open_;
  }
  turn.pool.freed_.notify_all();
  freed_.notify_all();
}

void ConnectionPool::release_place() noexcept {
  const std::lock_guard lock(state_.mutex);
  free_place();
}

void ConnectionPool::forget(const Turn& turn) noexcept {
  if (!turn.is_queued || turn.is_granted) return;
  std::erase(state_.turns, &turn);
  if (turn.wanted == Wanted::connection) --waiting_;
}

void ConnectionPool::give_up(const Turn& turn) {
  forget(turn);
  freed_.notify_one();  // it may have been told in the last moment, in place of another
  throw Error(ErrorCode::timeout,
              state_.is_shared()
                  ? "no connection to PostgreSQL became free in time; raise server_connections, "
                    "max_connections or call_timeout"
                  : "no connection to PostgreSQL became free in time; raise max_connections or "
                    "call_timeout");
}

void ConnectionPool::close(std::unique_ptr<Connection> connection) const noexcept {
  make_room(std::move(connection), steady_clock::now() + kClosingTime);
}

void ConnectionPool::make_room(std::unique_ptr<Connection> connection,
                               Deadline deadline) const noexcept {
  if (connection == nullptr || !state_.is_shared()) return;
  connection->close_and_wait(std::min(deadline, steady_clock::now() + kClosingTime));
}

ConnectionPool::Lease ConnectionPool::acquire(Deadline deadline) {
  close_unused();
  Turn turn{.pool = *this, .wanted = Wanted::connection};
  std::unique_lock lock(state_.mutex);
  for (;;) {
    if (turn.is_granted) {
      lock.unlock();
      if (turn.is_own) return {*this, std::move(turn.connection)};
      make_room(std::move(turn.connection), deadline);
      if (auto connection = open(deadline)) return {*this, std::move(connection)};
      lock.lock();
      turn.is_granted = turn.is_queued = false;
    }
    std::unique_ptr<Connection> connection = take_idle();
    if (connection) {
      lock.unlock();
      if (connection->is_alive()) return {*this, std::move(connection)};
      connection.reset();
      lock.lock();
      --open_;
      free_place();
      continue;
    }
    if (open_ + waiting_ < options_.max_connections && !turn.is_queued) {
      std::unique_ptr<Connection> unused;
      if (take_place(Wanted::connection, unused)) {
        lock.unlock();
        make_room(std::move(unused), deadline);
        connection = open(deadline);
        if (connection) return {*this, std::move(connection)};
        lock.lock();
      } else {
        state_.turns.push_back(&turn);
        turn.is_queued = true;
        ++waiting_;
      }
    }
    if (!idle_.empty() || open_ + waiting_ == 0) continue;
    const bool late = freed_.wait_until(lock, deadline) == std::cv_status::timeout;
    if (late && idle_.empty() && !turn.is_granted) give_up(turn);
  }
}

ConnectionPool::Place ConnectionPool::acquire_place(Deadline deadline) {
  Turn turn{.pool = *this, .wanted = Wanted::place};
  std::unique_lock lock(state_.mutex);
  if (!take_place(Wanted::place, turn.connection)) {
    state_.turns.push_back(&turn);
    turn.is_queued = true;
    freed_.wait_until(lock, deadline, [&] { return turn.is_granted; });
    if (!turn.is_granted) give_up(turn);
  }
  lock.unlock();
  make_room(std::move(turn.connection), deadline);
  return Place(*this);
}

std::unique_ptr<Connection> ConnectionPool::open(Deadline deadline) {
  try {
    return std::make_unique<Connection>(options_, deadline);
  } catch (const Error& error) {
    const std::lock_guard lock(state_.mutex);
    --open_;
    free_place();
    if (error.code() == ErrorCode::overloaded && open_ > 0) return nullptr;
    throw;
  } catch (...) {
    const std::lock_guard lock(state_.mutex);
    --open_;
    free_place();
    throw;
  }
}

void ConnectionPool::give_back(std::unique_ptr<Connection> connection) noexcept {
  const bool is_good = !connection->is_broken() && connection->is_idle();
  if (!is_good) connection.reset();
  const std::lock_guard lock(state_.mutex);
  if (is_good && state_.turns.empty()) {
    idle_.push_back({std::move(connection), steady_clock::now()});
    freed_.notify_one();
    return;
  }
  --open_;
  if (is_good) {
    Turn& next = *state_.turns.front();
    next.is_own = &next.pool == this && next.wanted == Wanted::connection;
    next.connection = std::move(connection);
  }
  free_place();
}

void ConnectionPool::close_unused() {
  if (options_.idle_timeout == 0s) return;
  const SteadyTime now = steady_clock::now();
  std::vector<std::unique_ptr<Connection>> unused;
  {
    const std::lock_guard lock(state_.mutex);
    if (now < state_.next_look) return;
    state_.next_look = now + kLookInterval;
    for (ConnectionPool* pool : state_.pools) {
      const auto limit = now - pool->options_.idle_timeout;
      while (!pool->idle_.empty() && pool->idle_.front().since <= limit) {
        unused.push_back(std::move(pool->idle_.front().connection));
        pool->idle_.erase(pool->idle_.begin());
        --pool->open_;
      }
    }
  }
  for (std::unique_ptr<Connection>& connection : unused) {
    close(std::move(connection));
    release_place();
  }
}

}  // namespace oncebox::postgresql
