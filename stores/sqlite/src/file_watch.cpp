#include "file_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/internal/descriptor.hpp"

namespace oncebox::sqlite {

struct FileWatch::Target {
  int watch = -1;
  detail::Mutex mutex;  // held during the call, so that the destructor of the watch waits for it
  std::function<void()> on_write ONCEBOX_GUARDED_BY(mutex);
};

using detail::Descriptor;

/// The thread and the instance that watches share.
class FileWatcher {
 public:
  using TargetPtr = std::shared_ptr<FileWatch::Target>;

  /// The one of this process, which lives as long as there is a watch.
  static std::shared_ptr<FileWatcher> shared() {
    static detail::Mutex mutex;
    static std::weak_ptr<FileWatcher> current ONCEBOX_GUARDED_BY(mutex);
    const detail::Lock lock(mutex);
    std::shared_ptr<FileWatcher> watcher = current.lock();
    if (!watcher) {
      watcher = std::make_shared<FileWatcher>();
      current = watcher;
    }
    return watcher;
  }

  FileWatcher()
      : events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (events_.get() < 0 || stop_.get() < 0) return;
    thread_ = std::jthread([this] { run(); });
  }
  ~FileWatcher() {
    const std::uint64_t one = 1;
    // The counter of an eventfd takes this without blocking.
    if (thread_.joinable()) (void)!write(stop_.get(), &one, sizeof one);
  }
  FileWatcher(const FileWatcher&) = delete;
  FileWatcher& operator=(const FileWatcher&) = delete;

  /// False when the file cannot be watched.
  bool add(const std::string& path, const TargetPtr& target) {
    if (!thread_.joinable()) return false;
    const detail::Lock lock(mutex_);
    target->watch = inotify_add_watch(events_.get(), path.c_str(), IN_MODIFY);
    if (target->watch < 0) return false;
    targets_[target->watch].push_back(target);  // the same number for the same file
    return true;
  }

  void remove(const TargetPtr& target) {
    const detail::Lock lock(mutex_);
    std::vector<TargetPtr>& of_file = targets_[target->watch];
    std::erase(of_file, target);
    if (!of_file.empty()) return;
    targets_.erase(target->watch);
    inotify_rm_watch(events_.get(), target->watch);
  }

 private:
  void run() {
    constexpr int kForever = -1;
    constexpr int kPauseMs = 1;
    while (wait(kForever)) {
      try {
        for (const TargetPtr& target : targets_of(read_events())) {
          const detail::Lock calling(target->mutex);
          if (target->on_write) target->on_write();
        }
      } catch (const std::bad_alloc&) {
        // The next poll of those that wait finds the work.
      }
      // A busy writer makes an event for each page; one wake-up for a burst is enough.
      if (!wait(kPauseMs)) return;
    }
  }

  /// Waits for something to read, or for the time to pass; false when it is to end.
  [[nodiscard]] bool wait(int timeout_ms) const {
    std::array<pollfd, 2> files{pollfd{stop_.get(), POLLIN, 0}, pollfd{events_.get(), POLLIN, 0}};
    // While waiting for the time to pass only the stop counts.
    const nfds_t watched = timeout_ms < 0 ? files.size() : 1;
    poll(files.data(), watched, timeout_ms);
    return (files[0].revents & POLLIN) == 0;
  }

  /// The numbers of the files that were written to.
  [[nodiscard]] std::set<int> read_events() {
    std::set<int> written;
    for (;;) {
      const ssize_t size = read(events_.get(), buffer_.data(), buffer_.size());
      if (size <= 0) return written;
      for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
        inotify_event event;
        std::memcpy(&event, buffer_.data() + at, sizeof event);
        written.insert(event.wd);
        at += sizeof event + event.len;
      }
    }
  }

  [[nodiscard]] std::vector<TargetPtr> targets_of(const std::set<int>& written) {
    // A full queue of the kernel drops events, and says so with this number.
    constexpr int kSomeWereLost = -1;
    std::vector<TargetPtr> targets;
    const auto add = [&](const std::vector<TargetPtr>& of_file) {
      targets.insert(targets.end(), of_file.begin(), of_file.end());
    };
    const detail::Lock lock(mutex_);
    if (written.contains(kSomeWereLost)) {
      for (const auto& [watch, of_file] : targets_) add(of_file);
      return targets;
    }
    for (const int watch : written) {
      if (const auto found = targets_.find(watch); found != targets_.end()) add(found->second);
    }
    return targets;
  }

  Descriptor events_;
  Descriptor stop_;
  std::array<char, 16'384> buffer_{};
  detail::Mutex mutex_;
  std::map<int, std::vector<TargetPtr>> targets_ ONCEBOX_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the members above
};

FileWatch::FileWatch(const std::string& path, std::function<void()> on_write)
    : watcher_(FileWatcher::shared()), target_(std::make_shared<Target>()) {
  target_->on_write = std::move(on_write);
  if (!watcher_->add(path, target_)) target_.reset();
}

FileWatch::~FileWatch() {
  if (!target_) return;
  watcher_->remove(target_);
  const detail::Lock waiting(target_->mutex);
  target_->on_write = nullptr;
}

}  // namespace oncebox::sqlite
