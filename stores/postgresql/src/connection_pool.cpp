#include "connection_pool.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::postgresql {

namespace {

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
  const detail::Lock lock(state_->mutex);
  return state_->open;
}

bool ConnectionBudget::State::take_place(const PlaceTurn& turn,
                                         std::unique_ptr<Connection>& unused) {
  if (!turns.empty()) return false;
  if (open < limit) {
    ++open;
  } else {
    PoolShare* longest = nullptr;
    for (PoolShare* pool : pools) {
      if (pool->idle.empty()) continue;
      const SteadyTime since = pool->idle.front().since;
      if (longest == nullptr || since < longest->idle.front().since) longest = pool;
    }
    if (longest == nullptr) return false;
    unused = std::move(longest->idle.front().connection);
    longest->idle.erase(longest->idle.begin());
    --longest->open;
  }
  if (turn.wanted == PlaceTurn::Wanted::connection) ++turn.pool.open;
  return true;
}

void ConnectionBudget::State::queue(PlaceTurn& turn) {
  turns.push_back(&turn);
  turn.is_queued = true;
  if (turn.wanted == PlaceTurn::Wanted::connection) ++turn.pool.waiting;
}

void ConnectionBudget::State::forget(const PlaceTurn& turn) noexcept {
  if (!turn.is_queued || turn.is_granted) return;
  std::erase(turns, &turn);
  if (turn.wanted == PlaceTurn::Wanted::connection) --turn.pool.waiting;
}

void ConnectionBudget::State::free_place(PoolShare& of) noexcept {
  if (turns.empty()) {
    --open;
    of.freed.notify_all();
    return;
  }
  PlaceTurn& turn = *turns.front();
  turns.pop_front();
  turn.is_granted = true;
  if (turn.wanted == PlaceTurn::Wanted::connection) {
    --turn.pool.waiting;
    ++turn.pool.open;
  }
  turn.pool.freed.notify_all();
  of.freed.notify_all();
}

struct ConnectionPool::Opening {
  std::unique_ptr<Connection> connection;
  std::exception_ptr failure;
  bool has_ended = false;
  bool was_left = false;  ///< nobody waits for it
  std::jthread thread;    ///< last: it uses the others
};

ConnectionPool::ConnectionPool(const Options& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      budget_(options.budget ? options.budget
                             : std::shared_ptr<ConnectionBudget>(
                                   new ConnectionBudget(ConnectionBudget::OfOnePool{}))),
      state_(*budget_->state_),
      share_{.idle_timeout = options.idle_timeout, .freed = freed_} {
  const detail::Lock lock(state_.mutex);
  share_.idle.reserve(options_.max_connections);
  state_.pools.push_back(&share_);
  may_listen_ = !state_.is_shared() || state_.may_listen + 1 <= state_.limit / 2;
  if (may_listen_) ++state_.may_listen;
}

ConnectionPool::~ConnectionPool() {
  std::list<Opening> openings;
  {
    const detail::Lock lock(state_.mutex);
    openings.swap(openings_);
  }
  openings.clear();
  std::vector<PoolShare::Idle> idle;
  {
    const detail::Lock lock(state_.mutex);
    std::erase(state_.pools, &share_);
    if (may_listen_) --state_.may_listen;
    idle.swap(share_.idle);
  }
  for (PoolShare::Idle& unused : idle) {
    close(std::move(unused.connection));
    release_place();
  }
}

std::unique_ptr<Connection> ConnectionPool::take_idle() {
  if (share_.idle.empty()) return nullptr;
  std::unique_ptr<Connection> connection = std::move(share_.idle.back().connection);
  share_.idle.pop_back();
  return connection;
}

void ConnectionPool::release_place() noexcept {
  const detail::Lock lock(state_.mutex);
  state_.free_place(share_);
}

void ConnectionPool::lose_connection() noexcept {
  --share_.open;
  state_.free_place(share_);
}

void ConnectionPool::give_up(const PlaceTurn& turn) {
  state_.forget(turn);
  share_.freed.notify_one();  // it may have been told in the last moment, in place of another
  CallScope::current().throw_if_over();
  throw Error(ErrorCode::timeout,
              state_.is_shared()
                  ? "no connection to PostgreSQL became free in time; raise server_connections, "
                    "max_connections or call_timeout"
                  : "no connection to PostgreSQL became free in time; raise max_connections or "
                    "call_timeout");
}

void ConnectionPool::close(std::unique_ptr<Connection> connection) const noexcept {
  make_room(std::move(connection), deadline_in(kClosingTime));
}

void ConnectionPool::make_room(std::unique_ptr<Connection> connection,
                               Deadline deadline) const noexcept {
  if (connection == nullptr || !state_.is_shared()) return;
  connection->close_and_wait(std::min(deadline, deadline_in(kClosingTime)));
}

ConnectionPool::Lease ConnectionPool::acquire(Deadline deadline) {
  const CallOptions& limits = CallScope::current();
  limits.throw_if_over();
  close_unused(deadline);
  const detail::NotifyOnStop wake(limits.stop, state_.mutex, freed_);
  PlaceTurn turn{.pool = share_, .wanted = PlaceTurn::Wanted::connection};
  detail::Lock lock(state_.mutex);
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
      lose_connection();
      continue;
    }
    if (share_.open + share_.waiting < options_.max_connections && !turn.is_queued) {
      std::unique_ptr<Connection> unused;
      if (state_.take_place(turn, unused)) {
        lock.unlock();
        make_room(std::move(unused), deadline);
        connection = open(deadline);
        if (connection) return {*this, std::move(connection)};
        lock.lock();
      } else {
        state_.queue(turn);
      }
    }
    if (!share_.idle.empty() || share_.open + share_.waiting == 0) continue;
    const bool late = !share_.freed.wait_until(state_.mutex, limits.deadline_or(deadline));
    const bool is_over = late || limits.is_over();
    if (is_over && share_.idle.empty() && !turn.is_granted) give_up(turn);
  }
}

ConnectionPool::Place ConnectionPool::acquire_place(Deadline deadline) {
  PlaceTurn turn{.pool = share_, .wanted = PlaceTurn::Wanted::place};
  {
    const detail::Lock lock(state_.mutex);
    if (!state_.take_place(turn, turn.connection)) {
      state_.queue(turn);
      while (!turn.is_granted) {
        const bool late = !share_.freed.wait_until(state_.mutex, deadline);
        if (late && !turn.is_granted) give_up(turn);
      }
    }
  }
  make_room(std::move(turn.connection), deadline);
  return Place(*this);
}

std::unique_ptr<Connection> ConnectionPool::open(Deadline deadline) {
  Opening* const opening = CallScope::current().is_limited() ? begin_opening(deadline) : nullptr;
  if (opening != nullptr) return wait_for(*opening);
  try {
    return std::make_unique<Connection>(options_, deadline);
  } catch (...) {
    const detail::Lock lock(state_.mutex);
    return not_opened(std::current_exception());
  }
}

std::unique_ptr<Connection> ConnectionPool::not_opened(std::exception_ptr why) {
  lose_connection();
  try {
    std::rethrow_exception(std::move(why));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::overloaded && share_.open > 0) return nullptr;
    throw;
  }
}

ConnectionPool::Opening* ConnectionPool::begin_opening(Deadline deadline) {
  const detail::Lock lock(state_.mutex);
  // Joins threads that never take the lock again.
  openings_.remove_if([](const Opening& opening) { return opening.has_ended && opening.was_left; });
  Opening& opening = openings_.emplace_back();
  try {
    opening.thread = std::jthread([this, &opening, deadline] { run(opening, deadline); });
    return &opening;
  } catch (const std::exception&) {
    openings_.pop_back();
    return nullptr;
  }
}

void ConnectionPool::run(Opening& opening, Deadline deadline) noexcept {
  std::unique_ptr<Connection> connection;
  std::exception_ptr failure;
  try {
    connection = std::make_unique<Connection>(options_, deadline);
  } catch (...) {
    failure = std::current_exception();
  }
  detail::Lock lock(state_.mutex);
  if (opening.was_left) {
    if (connection) {
      lock.unlock();
      give_back(std::move(connection));
      lock.lock();
    } else {
      lose_connection();
    }
  } else {
    opening.connection = std::move(connection);
    opening.failure = std::move(failure);
    opened_.notify_all();
  }
  opening.has_ended = true;
}

std::unique_ptr<Connection> ConnectionPool::wait_for(Opening& opening) {
  const CallOptions& limits = CallScope::current();
  const detail::NotifyOnStop wake(limits.stop, state_.mutex, opened_);
  const detail::Lock lock(state_.mutex);
  while (!opening.has_ended && !limits.is_over()) {
    opened_.wait_until(state_.mutex, limits.deadline_or(SteadyTime::max()));
  }
  opening.was_left = true;
  if (!opening.has_ended) throw limits.error();
  if (opening.failure) return not_opened(std::move(opening.failure));
  return std::move(opening.connection);
}

void ConnectionPool::give_back(std::unique_ptr<Connection> connection) noexcept {
  if (connection->take_failed_write()) has_failed_to_write_ = true;
  const bool is_good = !connection->is_broken() && connection->is_idle();
  if (!is_good) connection.reset();
  const detail::Lock lock(state_.mutex);
  if (is_good && state_.turns.empty()) {
    share_.idle.push_back({std::move(connection), clock_.steady()});
    share_.freed.notify_one();
    return;
  }
  if (is_good) {
    PlaceTurn& next = *state_.turns.front();
    next.is_own = &next.pool == &share_ && next.wanted == PlaceTurn::Wanted::connection;
    next.connection = std::move(connection);
  }
  lose_connection();
}

void ConnectionPool::close_unused(Deadline deadline) {
  if (options_.idle_timeout == 0s) return;
  const SteadyTime now = clock_.steady();
  std::vector<std::unique_ptr<Connection>> unused;
  {
    const detail::Lock lock(state_.mutex);
    if (now < state_.next_look) return;
    state_.next_look = now + kLookInterval;
    for (PoolShare* pool : state_.pools) {
      const auto limit = now - pool->idle_timeout;
      while (!pool->idle.empty() && pool->idle.front().since <= limit) {
        unused.push_back(std::move(pool->idle.front().connection));
        pool->idle.erase(pool->idle.begin());
        --pool->open;
      }
    }
  }
  const Deadline until = std::min(deadline, deadline_in(kClosingTime));
  for (std::unique_ptr<Connection>& connection : unused) {
    make_room(std::move(connection), until);
    release_place();
  }
}

}  // namespace oncebox::postgresql
