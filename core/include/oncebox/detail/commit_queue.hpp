#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/group_commit_options.hpp"

/// The part of `GroupCommit` that does not depend on what is committed.
namespace oncebox::detail {

/// An item that waits, as the link of a list, so that queueing it allocates nothing.
struct CommitTicket {
  CommitTicket* next = nullptr;
  CommitTicket* previous = nullptr;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  ///< grows in the order of the queue; 0: was never queued
};

/// Tickets in the order in which they came; owns none of them.
class CommitTickets {
 public:
  void append(CommitTicket& ticket) noexcept;
  void append(const CommitTickets& tickets) noexcept;
  /// One that is in here.
  void remove(CommitTicket& ticket) noexcept;
  /// Removes and answers the first ones: at least one, and more while both bounds hold.
  CommitTickets take_front(std::size_t max_items, std::size_t max_bytes) noexcept;

  [[nodiscard]] CommitTicket* first() const noexcept { return first_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

 private:
  CommitTicket* first_ = nullptr;
  CommitTicket* last_ = nullptr;
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
};

/// The bounded queue, and the threads that commit its tickets. A thread starts when there is work
/// for it, and ends when there has been none for a while: a queue that rests costs nothing.
class CommitQueue {
 public:
  /// Commits and answers a batch, which is never empty. Does not throw; runs outside every lock.
  using CommitBatch = std::function<void(const CommitTickets& batch)>;

  /// The clock is borrowed.
  CommitQueue(const GroupCommitOptions& options, CommitBatch commit_batch, const Clock& clock);
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  /// Takes all of them, or throws `overloaded`, `unavailable` or `out_of_range` and takes none.
  void push(const CommitTickets& tickets);
  /// The same for a caller that waits for the answer anyway: when a committer is idle, the caller
  /// does its work, and no thread has to be woken.
  void push_or_commit(const CommitTickets& tickets);
  /// Takes a ticket out that was pushed and waits. False when it is being committed, or was: then
  /// it is answered.
  bool withdraw(CommitTicket& ticket);
  void stop();
  [[nodiscard]] std::size_t size() const;
  /// Committers that commit, or wait for something to commit. Ended threads do not count.
  [[nodiscard]] std::size_t threads() const;

 private:
  using Threads = std::list<std::jthread>;

  void queue(const CommitTickets& tickets) noexcept ONCEBOX_REQUIRES(mutex_);
  void run(Threads::iterator self) noexcept;
  /// False when a committer has had nothing to do for the idle time.
  bool wait_for_work() ONCEBOX_REQUIRES(mutex_);
  /// Whether a committer is to wake: for a batch, or because the queue was stopped.
  [[nodiscard]] bool has_work() const ONCEBOX_REQUIRES(mutex_) {
    return queued_.empty() ? stopped_ : may_commit();
  }
  /// Starts a committer if none is idle; false when there is none and the system has no thread.
  bool have_committer() ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] bool may_commit() const ONCEBOX_REQUIRES(mutex_) {
    return committing_ < options_.committers;
  }
  void require_room_for(const CommitTickets& tickets) const ONCEBOX_REQUIRES(mutex_);

  const GroupCommitOptions options_;
  const CommitBatch commit_batch_;
  const Clock& clock_;
  Mutex joining_;  // held, before the other one, while `stop` joins the threads
  mutable Mutex mutex_;
  TimedCondition wake_;
  CommitTickets queued_ ONCEBOX_GUARDED_BY(mutex_);
  std::uint64_t last_number_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  // Committers that wait for a ticket, or are about to.
  std::size_t idle_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  // Committers, and callers in their place, that have a batch.
  std::size_t committing_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  bool stopped_ ONCEBOX_GUARDED_BY(mutex_) = false;
  Threads threads_ ONCEBOX_GUARDED_BY(mutex_);
  Threads ended_ ONCEBOX_GUARDED_BY(mutex_);  // had nothing to do; to be joined
};

/// Where one blocking caller waits for its item, on its own stack.
class CommitWaiter {
 public:
  void count_down();
  void wait();

 private:
  Mutex mutex_;
  Condition answered_;
  bool is_answered_ ONCEBOX_GUARDED_BY(mutex_) = false;
};

/// Where a caller waits for all of its items, that may leave before: it is woken alone, and once.
class LimitedWaiter {
 public:
  /// Before the first of them may be answered.
  void expect(std::size_t items);
  /// Guards what is answered, as long as the caller may leave.
  [[nodiscard]] Mutex& mutex() noexcept ONCEBOX_RETURN_CAPABILITY(mutex_) { return mutex_; }
  void count_down() noexcept ONCEBOX_REQUIRES(mutex_);
  /// False when the limits were over before everything was answered.
  bool wait(const CallOptions& limits);

 private:
  Mutex mutex_;
  TimedCondition answered_{SystemClock::shared()};  // the limits of calls are real
  std::size_t pending_ ONCEBOX_GUARDED_BY(mutex_) = 0;
};

/// Why a commit failed. Each item gets an `Error` of its own: exceptions share their text, and
/// these go to different threads.
struct CommitFailure {
  ErrorCode code = ErrorCode::internal;
  std::string text = {};
  bool of_whole_batch = true;  ///< false: a smaller batch may succeed

  /// Describes the exception that is being handled.
  [[nodiscard]] static CommitFailure current();
  [[nodiscard]] static CommitFailure wrong_number_of_outcomes(std::size_t items, std::size_t got);
  [[nodiscard]] Error error() const { return {code, text}; }
};

}  // namespace oncebox::detail
