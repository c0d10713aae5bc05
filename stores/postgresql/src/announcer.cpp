#include "announcer.hpp"

#include <utility>

namespace oncebox::postgresql {

namespace {

constexpr std::chrono::milliseconds kInterval{10};

}  // namespace

Announcer::Announcer(std::string channel, std::string text, Send send)
    : channel_(std::move(channel)), text_(std::move(text)), send_(std::move(send)) {}

Announcer::~Announcer() = default;

std::optional<Announcement> Announcer::next() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (!is_pending_ && now - last_ >= kInterval) {
    last_ = now;
    return Announcement{channel_, text_};
  }
  return std::nullopt;
}

void Announcer::soon() {
  const std::lock_guard lock(mutex_);
  is_pending_ = true;
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  wake_.notify_one();
}

void Announcer::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, stop, [this] { return is_pending_; })) {
    wake_.wait_until(lock, stop, last_ + kInterval, [] { return false; });
    is_pending_ = false;
    last_ = std::chrono::steady_clock::now();
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
