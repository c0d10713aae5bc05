#include "listener.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "connection.hpp"
#include "connection_pool.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/backoff.hpp"

namespace oncebox::postgresql {

namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstPause{50};
constexpr Duration kLongestPause{2'000};

}  // namespace

Listener::Listener(ConnectionPool& pool, const Clock& clock, std::vector<Channel> channels,
                   std::string own_text)
    : pool_(pool),
      channels_(std::move(channels)),
      own_text_(std::move(own_text)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      clock_(clock),
      pause_(clock) {
  if (wake_fd_ < 0)
    throw Error(
        ErrorCode::overloaded,
        "no file descriptor is left to listen with; raise the limit of open files (ulimit -n)");
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Listener::~Listener() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
  thread_.join();
  close(wake_fd_);
}

void Listener::tell_all() const {
  for (const Channel& channel : channels_) channel.on_announcement();
}

void Listener::run(const std::stop_token& stop) {
  detail::Backoff pause({.first = kFirstPause, .longest = kLongestPause});
  while (!stop.stop_requested()) {
    const SteadyTime began = clock_.steady();
    try {
      listen_once(stop);
    } catch (...) {
      // Lost, or not yet there: workers poll meanwhile.
    }
    if (clock_.steady() - began > kLongestPause) pause.reset();
    pause_.wait(stop, pause.take());
  }
}

void Listener::listen_once(const std::stop_token& stop) {
  // Not for long: the thread must end when the store does.
  const auto place = pool_.acquire_place(deadline_in(kLongestPause));
  auto connection = std::make_unique<Connection>(pool_.options());
  try {
    listen_on(*connection, stop);
  } catch (...) {
    pool_.close(std::move(connection));
    throw;
  }
  pool_.close(std::move(connection));
}

void Listener::listen_on(Connection& connection, const std::stop_token& stop) {
  const auto deadline = pool_.deadline();
  for (const Channel& channel : channels_) {
    connection.run_text(fmt::format("LISTEN \"{}\"", channel.name), Exchange::changes_nothing,
                        deadline);
  }
  tell_all();
  while (!stop.stop_requested()) {
    const auto texts = connection.wait_for_announcements(wake_fd_, deadline_in(1h));
    for (const std::string& text : texts) {
      for (const Channel& channel : channels_) {
        if (text.starts_with(channel.name) && !text.ends_with(own_text_)) channel.on_announcement();
      }
    }
  }
}

}  // namespace oncebox::postgresql
