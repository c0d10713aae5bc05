#pragma once

#include <mutex>

/// A mutex that clang checks: what a class guards is said in its declaration, and a function that
/// touches it without the lock does not compile (`-Wthread-safety`).
///
///     int count_ ONCEBOX_GUARDED_BY(mutex_) = 0;
///     void grow() ONCEBOX_REQUIRES(mutex_);  // the caller holds the lock
///
/// Not checked, so said in a comment where it matters: what is handed over from one thread to
/// another, and atomics.
#if defined(__clang__)
#define ONCEBOX_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define ONCEBOX_THREAD_ANNOTATION(x)
#endif

#define ONCEBOX_GUARDED_BY(x) ONCEBOX_THREAD_ANNOTATION(guarded_by(x))
#define ONCEBOX_PT_GUARDED_BY(x) ONCEBOX_THREAD_ANNOTATION(pt_guarded_by(x))
#define ONCEBOX_REQUIRES(...) ONCEBOX_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ONCEBOX_EXCLUDES(...) ONCEBOX_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ONCEBOX_ACQUIRE(...) ONCEBOX_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define ONCEBOX_RELEASE(...) ONCEBOX_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define ONCEBOX_ACQUIRE_SHARED(...) \
  ONCEBOX_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define ONCEBOX_RELEASE_SHARED(...) \
  ONCEBOX_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define ONCEBOX_RETURN_CAPABILITY(x) ONCEBOX_THREAD_ANNOTATION(lock_returned(x))
#define ONCEBOX_CAPABILITY(x) ONCEBOX_THREAD_ANNOTATION(capability(x))
#define ONCEBOX_SCOPED_CAPABILITY ONCEBOX_THREAD_ANNOTATION(scoped_lockable)
/// The last resort, with a comment that says why clang cannot see it.
#define ONCEBOX_NO_THREAD_ANALYSIS ONCEBOX_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace oncebox::detail {

class ONCEBOX_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ONCEBOX_ACQUIRE() { mutex_.lock(); }
  void unlock() ONCEBOX_RELEASE() { mutex_.unlock(); }

 private:
  friend class Condition;
  friend class TimedCondition;
  std::mutex mutex_;
};

/// Holds a mutex to the end of its scope; may let go of it in between.
class ONCEBOX_SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex) ONCEBOX_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() ONCEBOX_RELEASE() {
    if (holds_) mutex_.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() ONCEBOX_ACQUIRE() {
    mutex_.lock();
    holds_ = true;
  }
  void unlock() ONCEBOX_RELEASE() {
    holds_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool holds_ = true;
};

}  // namespace oncebox::detail
