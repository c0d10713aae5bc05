#include "announcer.hpp"

#include <utility>

namespace oncebox::postgresql {

namespace {

constexpr Duration kInterval{10};

}  // namespace

Announcer::Announcer(const Clock& clock, std::string channel, std::string text, Send send)
    : clock_(clock),
      channel_(std::move(channel)),
      text_(std::move(text)),
      send_(std::move(send)),
      wake_(clock) {}

Announcer::~Announcer() {
  {
    const detail::Lock lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
}

std::optional<Announcement> Announcer::next() {
  const detail::Lock lock(mutex_);
  const SteadyTime now = clock_.steady();
  if (!is_pending_ && now - last_ >= kInterval) {
    last_ = now;
    return Announcement{channel_, text_};
  }
  return std::nullopt;
}

void Announcer::soon() {
  {
    const detail::Lock lock(mutex_);
    is_pending_ = true;
    if (!thread_.joinable()) thread_ = std::jthread([this] { run(); });
  }
  wake_.notify_one();
}

bool Announcer::wait_for_turn() {
  while (!is_pending_ && !is_stopped_) wake_.wait(mutex_);
  while (!is_stopped_ && wake_.wait_until(mutex_, last_ + kInterval)) continue;
  // The last announcement goes out at the end as well: what it tells of was committed.
  return is_pending_;
}

void Announcer::run() {
  detail::Lock lock(mutex_);
  while (wait_for_turn()) {
    is_pending_ = false;
    last_ = clock_.steady();
    lock.unlock();
    try {
      send_({channel_, text_});
    } catch (...) {
      // Nobody hears of it; workers poll.
    }
    lock.lock();
  }
}

}  // namespace oncebox::postgresql
