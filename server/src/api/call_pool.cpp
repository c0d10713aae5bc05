#include "api/call_pool.hpp"

#include "oncebox/error.hpp"

namespace oncebox::server {

CallPool::CallPool(std::size_t threads, std::size_t max_queued) : max_queued_(max_queued) {
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
  std::unique_ptr<Queued> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped = std::move(first_);
    last_ = nullptr;
    queued_ = 0;
  }
  changed_.notify_all();
  while (dropped) dropped = std::move(dropped->next);
}

void CallPool::push(std::unique_ptr<Queued> call, Bound bound) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      if (bound == Bound::none) return;
      throw Error(ErrorCode::unavailable, "the server is stopping");
    }
    if (bound == Bound::max_queued && queued_ >= max_queued_) {
      throw Error(ErrorCode::overloaded, "too many calls wait for the store");
    }
    Queued* const added = call.get();
    (last_ == nullptr ? first_ : last_->next) = std::move(call);
    last_ = added;
    ++queued_;
  }
  changed_.notify_one();
}

std::unique_ptr<CallPool::Queued> CallPool::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return first_ != nullptr || stopped_; });
  std::unique_ptr<Queued> call = std::move(first_);
  if (call == nullptr) return nullptr;
  first_ = std::move(call->next);
  if (first_ == nullptr) last_ = nullptr;
  --queued_;
  return call;
}

void CallPool::work() {
  while (const std::unique_ptr<Queued> call = pop()) call->run();
}

}  // namespace oncebox::server
