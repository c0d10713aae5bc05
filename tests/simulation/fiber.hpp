#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace oncebox::simulation {

/// A function with a stack of its own, on the thread that resumes it: it can stop in the middle of
/// a call, let others go on, and be resumed. So code that is written for threads runs on one, and
/// whoever resumes fibers decides the order. A fiber must not be suspended while it holds a lock.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it suspends itself or ends. The fiber has no body under way.
  void start(std::function<void()> body);
  /// Goes on behind `suspend`.
  void resume();
  /// Called by the body: goes on behind the `start` or `resume` that it was called by.
  void suspend();

  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }

 private:
  static void enter(unsigned int high, unsigned int low);
  void switch_in();
  void switch_out();
  void run() noexcept;

  /// What the C++ runtime keeps for each thread about exceptions in flight.
  struct Exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  static Exceptions exchange_exceptions(const Exceptions& other) noexcept;

  std::unique_ptr<std::byte[]> stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  Exceptions exceptions_inside_;
  Exceptions exceptions_outside_;
  std::function<void()> body_;
  bool has_ended_ = true;

  // For AddressSanitizer, which has to know the stack that is in use.
  void* shadow_inside_ = nullptr;
  void* shadow_outside_ = nullptr;
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
};

/// As long as it lives, memory is allocated that nobody need free: a fiber that is abandoned in the
/// middle of a call frees nothing, and a leak detector does not see what its stack holds.
class LeaksExpected {
 public:
  LeaksExpected() { begin(); }
  ~LeaksExpected() { end(); }
  LeaksExpected(const LeaksExpected&) = delete;
  LeaksExpected& operator=(const LeaksExpected&) = delete;

 private:
  static void begin();
  static void end();
};

}  // namespace oncebox::simulation
