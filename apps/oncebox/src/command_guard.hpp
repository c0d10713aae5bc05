#pragma once

#include <sys/types.h>

#include <atomic>

#include "oncebox/internal/descriptor.hpp"

namespace oncebox::app {

/// A process beside this one that ends the commands when this one dies, also by SIGKILL. Both share
/// a pipe: a command tells its process group on it before it becomes the command, we tell when the
/// group has ended, and the end of the pipe is our end. The guard then kills every group that is
/// left. It takes no notice of signals, but for SIGKILL.
class CommandGuard {
 public:
  /// To be made while this process has one thread. Throws `unavailable`.
  CommandGuard();
  /// Ends the guard, once all groups are forgotten.
  ~CommandGuard();
  CommandGuard(const CommandGuard&) = delete;
  CommandGuard& operator=(const CommandGuard&) = delete;

  /// For a new process, before exec: it leads a group, which the guard is to end. Until exec it
  /// holds the pipe open, so the guard hears of it before it hears of our end.
  void watch_own_group() const noexcept;
  /// To be called before the leader is waited for: after that its number may be another's.
  void forget(pid_t group) noexcept;

  /// False when the guard was found dead: nobody ends the children of commands then.
  [[nodiscard]] bool is_there() const noexcept { return is_there_; }

 private:
  detail::Descriptor pipe_;  ///< its writing end
  pid_t pid_ = -1;
  std::atomic<bool> is_there_ = true;
};

}  // namespace oncebox::app
