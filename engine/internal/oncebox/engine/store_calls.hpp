#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/engine/call_plan.hpp"

namespace oncebox::engine {

/// Makes calls to stores, on threads that come and go. A `CallPlan` decides which begins next, so a
/// database server that hangs holds up itself and no other. Safe from any thread, but for the
/// destructor.
///
/// **Threads.** One starts when a call may begin and no thread is free, and ends when it has had
/// nothing to do for a while. When none can be had, those that are there make the calls; when there
/// is none, the next notification of any lane tries again.
///
/// **Failures.** Nothing but the constructor and `add` throws or needs memory, and a call that
/// throws, for lack of memory for example, counts as failed and comes again a second later.
class StoreCalls {
 private:
  class Impl;
  struct LaneState;

 public:
  class Chooser;
  struct Options {
    CallLimits limits;
    /// At most. More than may run at the same time, if those that hang are not to hold up others.
    /// None: the owner makes the calls, by `run_next`.
    std::size_t threads;
    std::size_t threads_kept = 0;  ///< these never end, the first of them starts at once
    Duration rest = std::chrono::seconds{10};
    /// Borrowed. Without one the lanes of a server take turns.
    Chooser* chooser = nullptr;
  };

  /// A call to be made once. Destroyed, on any thread and outside of every lock, when it has been
  /// made, or when it is dropped.
  class Call {
   public:
    virtual ~Call() = default;
    virtual void run() noexcept = 0;

   private:
    friend class StoreCalls;
    std::unique_ptr<Call> next_;
  };

  /// The calls about one store. It goes with this object: calls that have been posted are made and
  /// those under way go on, nothing else begins any more. May outlive the `StoreCalls`. Destroying
  /// it does not wait. What its function holds is let go then, or by the thread of the last call,
  /// outside of every lock. Safe from any thread, but for moving and destroying it.
  class Lane {
   public:
    Lane() = default;
    ~Lane();
    Lane(Lane&& other) noexcept;
    Lane& operator=(Lane&& other) noexcept;

    /// A call of this kind is to begin; while one runs: once more. Wanted twice is wanted once.
    void want(CallKind kind = CallKind::call) const noexcept;
    /// The same no later than then.
    void want_at(SteadyTime time, CallKind kind = CallKind::call) const noexcept;
    /// It is not, now or later; one that runs goes on.
    void unwant(CallKind kind = CallKind::call) const noexcept;
    /// Makes this call as one of the kind `call`, in the order in which they came. False after a
    /// stop; then it is dropped.
    bool post(std::unique_ptr<Call> call) const noexcept;
    /// How many of the kind `call` run at the same time.
    void set_width(std::size_t width) const noexcept;

   private:
    friend class StoreCalls;
    Lane(std::shared_ptr<Impl> impl, LaneState* state) noexcept;

    std::shared_ptr<Impl> impl_;
    LaneState* state_ = nullptr;
  };

  /// Makes a call that is wanted.
  using Run = std::function<CallEnded(CallKind kind)>;
  struct Store {
    std::string server;  ///< stands for the database server that the store lives on
    Run run = {};
    std::size_t width = 1;  ///< see `Lane::set_width`
    /// A call of the kind `call` is wanted and none is under way. For a chooser, under its rules:
    /// with one, a lane that makes such calls has to have it.
    std::function<void()> on_ready = {};
  };

  /// The lanes that can make a call of the kind `call` now. All of them are on one database server.
  class Candidates {
   public:
    [[nodiscard]] bool has(const Lane& lane) const noexcept;

   private:
    friend class Impl;
    explicit Candidates(const CallPlan& plan) noexcept : plan_(plan) {}

    const CallPlan& plan_;
  };

  /// Decides which lane makes the next call of the kind `call`. Called under a lock of the
  /// `StoreCalls`: it returns at once, and calls neither them nor a lane.
  class Chooser {
   public:
    virtual ~Chooser() = default;
    /// Null: none of them, until a call is wanted on their server or ends there, or until
    /// `reconsider`.
    virtual const Lane* choose(const Candidates& candidates) noexcept = 0;
  };

  /// The clock is borrowed. Throws when a thread that is kept cannot be started.
  StoreCalls(const Options& options, const Clock& clock);
  /// Stops, and drops what waits.
  ~StoreCalls();
  StoreCalls(const StoreCalls&) = delete;
  StoreCalls& operator=(const StoreCalls&) = delete;

  [[nodiscard]] Lane add(Store store);

  /// The chooser is asked again.
  void reconsider() noexcept;

  // For an owner that makes the calls itself.

  /// Makes the next call; false when there is none now.
  bool run_next();
  /// When the time alone may give `run_next` something to do.
  [[nodiscard]] SteadyTime next_change() const;

  /// Nothing more is taken, and calls that are wanted at a later time are not made. Makes those
  /// that are wanted now or posted, as far as there are threads, and returns when all have ended.
  /// Must not be called by a call.
  void stop();
  /// Nothing more is taken, and what waits is dropped. Does not wait for the calls under way.
  void drop() noexcept;

  /// How many there are now.
  [[nodiscard]] std::size_t threads() const;
  /// Whether the one that asks is among them.
  [[nodiscard]] bool is_own_thread() const;

 private:
  const std::shared_ptr<Impl> impl_;
};

}  // namespace oncebox::engine
