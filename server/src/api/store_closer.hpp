#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace oncebox::server {

/// Closes stores on a thread of its own: whoever lets go of one last, perhaps a thread of the
/// sockets or one that belongs to the store itself, must not wait until it is closed. Every call
/// but the destructor is safe from any thread.
class StoreCloser {
 public:
  StoreCloser();
  /// Waits until everything that it made is gone.
  ~StoreCloser();
  StoreCloser(const StoreCloser&) = delete;
  StoreCloser& operator=(const StoreCloser&) = delete;

  /// Makes what is destroyed here, once nobody holds it any more.
  template <class T, class... Arguments>
  [[nodiscard]] std::shared_ptr<T> make(Arguments&&... arguments) {
    auto made = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    add_one();
    return std::shared_ptr<T>(made.release(), [this](T* last) {
      run([this, last] {
        delete last;
        remove_one();
      });
    });
  }

  /// Runs it on the thread. It must not throw.
  void run(std::function<void()> job);

 private:
  void add_one();
  void remove_one();
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::size_t alive_ = 0;
  bool stopping_ = false;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace oncebox::server
