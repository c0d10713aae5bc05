#pragma once

#include <functional>
#include <memory>
#include <string>

namespace oncebox::sqlite {

class FileWatcher;

/// Tells when a process, this one or another, has written to a file. Costs nothing while none
/// does. Where the system has no such service it tells nothing, and its user falls back on polling.
///
/// All watches of a process share a thread and an inotify instance, of which the kernel grants each
/// user a hundred or so: there may be more stores than that.
class FileWatch {
 public:
  /// Calls `on_write` on the thread of the watches, at most about a thousand times a second, until
  /// it is destroyed. `on_write` must not throw, and must return at once.
  FileWatch(const std::string& path, std::function<void()> on_write);
  /// Waits for a call under way.
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  struct Target;

 private:
  std::shared_ptr<FileWatcher> watcher_;
  std::shared_ptr<Target> target_;  ///< null: it could not be watched
};

}  // namespace oncebox::sqlite
