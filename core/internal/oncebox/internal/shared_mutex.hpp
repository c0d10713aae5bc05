#pragma once

#include <shared_mutex>

#include "oncebox/detail/mutex.hpp"

namespace oncebox::detail {

/// A mutex that many threads may hold at the same time to read, or one to write. Checked by clang
/// as `Mutex` is. For what every request reads and next to nothing changes.
class ONCEBOX_CAPABILITY("mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() ONCEBOX_ACQUIRE() { mutex_.lock(); }
  void unlock() ONCEBOX_RELEASE() { mutex_.unlock(); }
  void lock_shared() ONCEBOX_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() ONCEBOX_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

/// Holds it to write, to the end of its scope.
class ONCEBOX_SCOPED_CAPABILITY WriteLock {
 public:
  explicit WriteLock(SharedMutex& mutex) ONCEBOX_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriteLock() ONCEBOX_RELEASE() { mutex_.unlock(); }
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  SharedMutex& mutex_;
};

/// Holds it to read, to the end of its scope.
class ONCEBOX_SCOPED_CAPABILITY ReadLock {
 public:
  explicit ReadLock(SharedMutex& mutex) ONCEBOX_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReadLock() ONCEBOX_RELEASE() { mutex_.unlock_shared(); }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace oncebox::detail
