#pragma once

#include <functional>
#include <string>
#include <thread>

namespace oncebox::sqlite {

/// Tells when somebody, in whatever process, has written to a file. Costs nothing while nobody
/// does. Where the system has no such service it tells nothing, and its user falls back on polling.
class FileWatch {
 public:
  /// Calls `on_write` from a thread of its own, at most about a thousand times a second, until it
  /// is destroyed. `on_write` must not throw.
  FileWatch(const std::string& path, std::function<void()> on_write);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  /// A file descriptor that closes itself.
  class Descriptor {
   public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor();
    [[nodiscard]] int get() const noexcept { return number_; }

   private:
    int number_;
  };

  void watch();
  /// Whether there is something to read on `events` before the time is over; false when stopped.
  [[nodiscard]] bool wait(int timeout_ms) const;

  Descriptor events_;
  Descriptor stop_;
  std::function<void()> on_write_;
  std::jthread thread_;
};

}  // namespace oncebox::sqlite
