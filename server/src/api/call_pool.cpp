#include "api/call_pool.hpp"

#include <algorithm>
#include <exception>
#include <vector>

#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

/// Of all servers together, or twice the budget of one if that is more.
constexpr std::size_t kThreadsAtMost = 256;
/// One part in so many of them is kept for servers that have no call under way.
constexpr std::size_t kKeptForServers = 4;
/// One part in so many of a server's threads is kept for other stores of it.
constexpr std::size_t kKeptForStores = 8;
/// One part in so many of the places is kept for lanes in which no call waits.
constexpr std::size_t kKeptPlaces = 4;

}  // namespace

CallPool::CallPool(std::size_t threads, std::size_t max_queued, std::chrono::milliseconds rest)
    : threads_per_server_(threads),
      threads_at_most_(std::max(kThreadsAtMost, 2 * threads)),
      max_queued_(max_queued),
      rest_(rest),
      own_lane_(std::make_shared<Lane>(std::make_shared<Server>())) {
  // One is always there: what was taken is run, also when no other can be had.
  const std::lock_guard lock(mutex_);
  const auto self = threads_.emplace(threads_.end());
  *self = std::jthread([this, self] { work(self); });
  ++idle_;
}

CallPool::~CallPool() { stop(); }

void CallPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  // From now on none is added, and none leaves the list.
  const std::lock_guard lock(joining_);
  for (Threads* threads : {&threads_, &ended_}) {
    for (std::jthread& thread : *threads) {
      if (thread.joinable()) thread.join();
    }
  }
}

std::size_t CallPool::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void CallPool::discard() {
  std::vector<std::unique_ptr<Queued>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (const LanePtr& lane : waiting_) {
      dropped.push_back(std::move(lane->first));
      lane->last = nullptr;
      lane->queued = 0;
      lane->queued_bounded = 0;
    }
    waiting_.clear();
    queued_ = 0;
  }
  changed_.notify_all();
  for (std::unique_ptr<Queued>& call : dropped) {
    while (call) call = std::move(call->next);
  }
}

CallPool::LanePtr CallPool::make_lane(const std::string& server) {
  const std::lock_guard lock(mutex_);
  std::erase_if(servers_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<Server>& known = servers_[server];
  std::shared_ptr<Server> shared = known.lock();
  if (!shared) known = shared = std::make_shared<Server>();
  return std::make_shared<Lane>(std::move(shared));
}

void CallPool::push(const LanePtr& lane, std::unique_ptr<Queued> call) {
  const bool is_bounded = call->bound == Bound::max_queued;
  Threads ended;  // joined outside the lock
  const std::lock_guard lock(mutex_);
  if (stopped_) {
    if (!is_bounded) return;
    throw Error(ErrorCode::unavailable, "the server is stopping");
  }
  // Work of the server's own is not what keeps a client from the last places.
  const std::size_t kept = lane->queued_bounded > 0 ? max_queued_ / kKeptPlaces : 0;
  if (is_bounded && queued_ >= max_queued_ - kept) {
    throw Error(ErrorCode::overloaded, "too many calls wait for the store");
  }
  Queued* const added = call.get();
  (lane->last == nullptr ? lane->first : lane->last->next) = std::move(call);
  lane->last = added;
  if (lane->queued++ == 0) waiting_.push_back(lane);
  if (is_bounded) {
    ++queued_;
    ++lane->queued_bounded;
  }
  ended.splice(ended.end(), ended_);
  if (may_begin(*lane)) let_another_work();
}

void CallPool::let_another_work() {
  if (idle_ > 0) {
    changed_.notify_one();
    return;
  }
  if (stopped_ || threads_.size() >= threads_at_most_) return;
  const auto self = threads_.emplace(threads_.end());
  try {
    *self = std::jthread([this, self] { work(self); });
    ++idle_;
  } catch (const std::exception&) {
    // Those that are there do it, one after the other.
    threads_.erase(self);
  }
}

bool CallPool::may_begin(const Lane& lane) const {
  if (stopped_) return true;
  const std::size_t busy_on_server = lane.server->running;
  const std::size_t left = threads_at_most_ - running_;
  if (busy_on_server == 0) return left > 0;
  if (left <= threads_at_most_ / kKeptForServers) return false;
  const std::size_t kept =
      lane.running == 0 ? 0 : std::max<std::size_t>(threads_per_server_ / kKeptForStores, 1);
  return busy_on_server + kept < threads_per_server_;
}

std::list<CallPool::LanePtr>::iterator CallPool::next() {
  return std::ranges::find_if(waiting_, [this](const LanePtr& lane) { return may_begin(*lane); });
}

std::unique_ptr<CallPool::Queued> CallPool::take(std::list<LanePtr>::iterator place) {
  Lane& lane = **place;
  std::unique_ptr<Queued> call = std::move(lane.first);
  lane.first = std::move(call->next);
  if (call->bound == Bound::max_queued) {
    --queued_;
    --lane.queued_bounded;
  }
  if (--lane.queued > 0) {
    waiting_.splice(waiting_.end(), waiting_, place);
  } else {
    lane.last = nullptr;
    waiting_.erase(place);
  }
  return call;
}

void CallPool::work(Threads::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto place = waiting_.end();
    const bool has_call_or_end = changed_.wait_for(lock, rest_, [&] {
      place = next();
      return place != waiting_.end() || (stopped_ && waiting_.empty());
    });
    if (place != waiting_.end()) {
      run_next(lock, place);
    } else if (has_call_or_end) {
      return;
    } else if (!stopped_ && threads_.size() > 1) {
      --idle_;
      ended_.splice(ended_.end(), threads_, self);
      return;
    }
  }
}

void CallPool::run_next(std::unique_lock<std::mutex>& lock, std::list<LanePtr>::iterator place) {
  const LanePtr lane = *place;
  std::unique_ptr<Queued> call = take(place);
  --idle_;
  ++lane->running;
  ++lane->server->running;
  ++running_;
  // Each sees to the next: what one call that ended made room for may be more than one.
  if (next() != waiting_.end()) let_another_work();
  lock.unlock();
  call->run();
  call.reset();
  lock.lock();
  --lane->running;
  --lane->server->running;
  --running_;
  ++idle_;
}

}  // namespace oncebox::server
