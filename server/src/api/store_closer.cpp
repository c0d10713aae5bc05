#include "api/store_closer.hpp"

namespace oncebox::server {

StoreCloser::StoreCloser() : thread_([this] { work(); }) {}

StoreCloser::~StoreCloser() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void StoreCloser::run(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  // Under the lock: the last one may let the destructor go on.
  changed_.notify_all();
}

void StoreCloser::add_one() {
  const std::lock_guard lock(mutex_);
  ++alive_;
}

void StoreCloser::remove_one() {
  const std::lock_guard lock(mutex_);
  --alive_;
}

void StoreCloser::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !jobs_.empty() || (stopping_ && alive_ == 0); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
  }
}

}  // namespace oncebox::server
