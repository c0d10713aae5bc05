#include "api/call_pool.hpp"

#include <algorithm>

#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

/// One part in so many of the threads is kept for other stores of a server, and again as many for
/// other servers.
constexpr std::size_t kKeptThreads = 8;
/// One part in so many of the places is kept for lanes in which no call waits.
constexpr std::size_t kKeptPlaces = 4;

}  // namespace

CallPool::CallPool(std::size_t threads, std::size_t max_queued)
    : threads_at_most_(threads),
      max_queued_(max_queued),
      own_lane_(std::make_shared<Lane>(std::make_shared<Server>())) {
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

CallPool::~CallPool() { stop(); }

void CallPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  const std::lock_guard lock(joining_);
  for (std::jthread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
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

void CallPool::push(const LanePtr& lane, std::unique_ptr<Queued> call, Bound bound) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      if (bound == Bound::none) return;
      throw Error(ErrorCode::unavailable, "the server is stopping");
    }
    const std::size_t places = max_queued_ - (lane->queued > 0 ? max_queued_ / kKeptPlaces : 0);
    if (bound == Bound::max_queued && queued_ >= places) {
      throw Error(ErrorCode::overloaded, "too many calls wait for the store");
    }
    Queued* const added = call.get();
    (lane->last == nullptr ? lane->first : lane->last->next) = std::move(call);
    lane->last = added;
    if (lane->queued++ == 0) waiting_.push_back(lane);
    ++queued_;
  }
  changed_.notify_one();
}

bool CallPool::may_begin(const Lane& lane) const {
  if (stopped_ || lane.server->running == 0) return true;
  const std::size_t kept = std::max<std::size_t>(threads_at_most_ / kKeptThreads, 1);
  return threads_at_most_ - running_ > (lane.running == 0 ? kept : 2 * kept);
}

std::list<CallPool::LanePtr>::iterator CallPool::next() {
  return std::ranges::find_if(waiting_, [this](const LanePtr& lane) { return may_begin(*lane); });
}

std::unique_ptr<CallPool::Queued> CallPool::take(std::list<LanePtr>::iterator place) {
  Lane& lane = **place;
  std::unique_ptr<Queued> call = std::move(lane.first);
  lane.first = std::move(call->next);
  --queued_;
  if (--lane.queued > 0) {
    waiting_.splice(waiting_.end(), waiting_, place);
  } else {
    lane.last = nullptr;
    waiting_.erase(place);
  }
  return call;
}

void CallPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto place = waiting_.end();
    changed_.wait(lock, [&] {
      place = next();
      return place != waiting_.end() || (stopped_ && waiting_.empty());
    });
    if (place == waiting_.end()) return;
    const LanePtr lane = *place;
    std::unique_ptr<Queued> call = take(place);
    ++lane->running;
    ++lane->server->running;
    ++running_;
    // What one call that ended made room for may be more than one.
    if (!waiting_.empty()) changed_.notify_one();
    lock.unlock();
    call->run();
    call.reset();
    lock.lock();
    --lane->running;
    --lane->server->running;
    --running_;
  }
}

}  // namespace oncebox::server
