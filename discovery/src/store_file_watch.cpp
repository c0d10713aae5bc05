#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "oncebox/internal/descriptor.hpp"
#include "oncebox/store_file.hpp"
#include "store_file_impl.hpp"

namespace oncebox {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A program may change a file in several steps. So it is read when nothing has happened for
/// `kQuiet`, and after `kLongestBurst` at the latest.
constexpr milliseconds kQuiet{50};
constexpr milliseconds kLongestBurst{1'000};
/// How often to look whether a folder can be watched that could not.
constexpr milliseconds kTryAgain{1'000};

constexpr std::uint32_t kChanges =
    IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB;
constexpr std::uint32_t kFolderIsGone = IN_DELETE_SELF | IN_MOVE_SELF;

}  // namespace

/// It watches the folder, since a file that is replaced is another file.
class StoreFileWatch::Impl {
 public:
  Impl(StoreFile::Impl& file, StoreSet& stores)
      : file_(file),
        stores_(stores),
        folder_(file.path.has_parent_path() ? file.path.parent_path().string() : "."),
        name_(file.path.filename().string()),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!stop_.is_open()) return;
    thread_ = std::jthread([this] { run(); });
  }

  ~Impl() {
    const std::uint64_t one = 1;
    // The counter of an eventfd takes this without blocking.
    if (thread_.joinable()) (void)!write(stop_.get(), &one, sizeof one);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  enum class Woken { stopped, changed, time_is_over };

  void run() {
    for (;;) {
      if (!events_.is_open()) watch_folder();
      // Also for what has changed before it was watched.
      if (is_touched_ || has_changed()) {
        if (!wait_for_quiet()) return;
        refresh();
        continue;
      }
      if (wait(events_.is_open() ? milliseconds{-1} : kTryAgain) == Woken::stopped) return;
      take_events();
    }
  }

  void watch_folder() {
    detail::Descriptor events(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!events.is_open()) return;
    if (inotify_add_watch(events.get(), folder_.c_str(), kChanges | kFolderIsGone) < 0) return;
    events_ = std::move(events);
  }

  /// False when it is to stop.
  [[nodiscard]] bool wait_for_quiet() {
    const auto latest = steady_clock::now() + kLongestBurst;
    while (steady_clock::now() < latest) {
      const Woken woken = wait(kQuiet);
      if (woken == Woken::stopped) return false;
      if (woken == Woken::time_is_over) return true;
      take_events();
    }
    return true;
  }

  [[nodiscard]] bool has_changed() const {
    const FileState now = file_state(file_.path.c_str());
    return now != seen_ && !file_.was_read_as(now);
  }

  void refresh() {
    is_touched_ = false;
    seen_ = file_state(file_.path.c_str());
    try {
      stores_.refresh();
    } catch (const std::exception&) {
      // The set has logged it, and says it in its health.
    }
  }

  [[nodiscard]] Woken wait(milliseconds time) const {
    std::array<pollfd, 2> files{pollfd{stop_.get(), POLLIN, 0}, pollfd{events_.get(), POLLIN, 0}};
    const int ready = poll(files.data(), files.size(), static_cast<int>(time.count()));
    if ((files[0].revents & POLLIN) != 0) return Woken::stopped;
    return ready > 0 ? Woken::changed : Woken::time_is_over;
  }

  void take_events() {
    if (!events_.is_open()) return;
    alignas(inotify_event) std::array<char, 4'096> bytes{};
    ssize_t count = 0;
    bool is_lost = false;
    while ((count = read(events_.get(), bytes.data(), bytes.size())) > 0) {
      for (std::size_t at = 0; at < static_cast<std::size_t>(count);) {
        inotify_event event{};
        std::memcpy(&event, bytes.data() + at, sizeof event);
        const char* const name = bytes.data() + at + sizeof event;
        is_lost = is_lost || (event.mask & (kFolderIsGone | IN_IGNORED)) != 0;
        // Its time and size may be those of before, when it is changed twice in a moment.
        is_touched_ =
            is_touched_ || (event.mask & IN_Q_OVERFLOW) != 0 || (event.len > 0 && name_ == name);
        at += sizeof event + event.len;
      }
    }
    if (is_lost) events_ = detail::Descriptor();
  }

  StoreFile::Impl& file_;
  StoreSet& stores_;
  const std::string folder_;
  const std::string name_;
  const detail::Descriptor stop_;
  detail::Descriptor events_;
  FileState seen_;           ///< before the last refresh
  bool is_touched_ = false;  ///< since then
  std::jthread thread_;      // last: it uses the members above
};

StoreFileWatch::StoreFileWatch(const StoreFile& file, StoreSet& stores)
    : impl_(std::make_unique<Impl>(*file.impl_, stores)) {}

StoreFileWatch::~StoreFileWatch() = default;

}  // namespace oncebox
