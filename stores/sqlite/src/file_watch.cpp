#include "file_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

namespace oncebox::sqlite {

FileWatch::Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

FileWatch::FileWatch(const std::string& path, std::function<void()> on_write)
    : events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      on_write_(std::move(on_write)) {
  if (events_.get() < 0 || stop_.get() < 0) return;
  if (inotify_add_watch(events_.get(), path.c_str(), IN_MODIFY) < 0) return;
  thread_ = std::jthread([this] { watch(); });
}

FileWatch::~FileWatch() {
  const std::uint64_t one = 1;
  // The counter of an eventfd takes this without blocking.
  if (thread_.joinable()) (void)!write(stop_.get(), &one, sizeof one);
}

bool FileWatch::wait(int timeout_ms) const {
  std::array<pollfd, 2> files{pollfd{stop_.get(), POLLIN, 0}, pollfd{events_.get(), POLLIN, 0}};
  // While waiting for the time to pass only the stop counts.
  const nfds_t watched = timeout_ms < 0 ? files.size() : 1;
  poll(files.data(), watched, timeout_ms);
  return (files[0].revents & POLLIN) == 0;
}

void FileWatch::watch() {
  constexpr int kForever = -1;
  constexpr int kPauseMs = 1;
  std::array<char, 4'096> events{};
  while (wait(kForever)) {
    while (read(events_.get(), events.data(), events.size()) > 0) {
    }
    on_write_();
    // A busy writer makes an event for each page; one wake-up for a burst is enough.
    if (!wait(kPauseMs)) return;
  }
}

}  // namespace oncebox::sqlite
