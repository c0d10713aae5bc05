#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "oncebox/error.hpp"
#include "oncebox/group_commit_options.hpp"

/// The part of `GroupCommit` that does not depend on what is committed.
namespace oncebox::detail {

/// An item that waits, as the link of a list, so that queueing it allocates nothing.
struct CommitTicket {
  CommitTicket* next = nullptr;
  std::size_t bytes = 0;
};

/// Tickets in the order in which they came; owns none of them.
class CommitTickets {
 public:
  void append(CommitTicket& ticket) noexcept;
  void append(const CommitTickets& tickets) noexcept;
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

/// The bounded queue, and the threads that commit what stands in it. They start when there is work
/// for them, and end when there has been none for a while: a queue that rests costs nothing.
class CommitQueue {
 public:
  /// Commits and answers a batch, which is never empty. Does not throw; runs outside every lock.
  using CommitBatch = std::function<void(const CommitTickets& batch)>;

  CommitQueue(const GroupCommitOptions& options, CommitBatch commit_batch);
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  /// Takes all of them, or throws `overloaded`, `unavailable` or `out_of_range` and takes none.
  void push(const CommitTickets& tickets);
  /// The same for a caller that waits for the answer anyway: when a committer is idle, the caller
  /// does its work, and nobody has to be woken.
  void push_or_commit(const CommitTickets& tickets);
  void stop();
  [[nodiscard]] std::size_t size() const;
  /// Committers that commit, or wait for something to commit. Those that have ended do not count.
  [[nodiscard]] std::size_t threads() const;

 private:
  using Threads = std::list<std::jthread>;

  void run(Threads::iterator self) noexcept;
  /// Sees to it that somebody is there to commit; false when no thread can be had. Under the lock.
  bool have_committer();
  [[nodiscard]] bool may_commit() const { return committing_ < options_.committers; }
  void require_room_for(const CommitTickets& tickets) const;

  const GroupCommitOptions options_;
  const CommitBatch commit_batch_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  CommitTickets queued_;
  std::size_t idle_ = 0;        // committers that wait for a ticket, or are about to
  std::size_t committing_ = 0;  // committers, and callers in their place, that have a batch
  bool stopped_ = false;
  Threads threads_;
  Threads ended_;       // those that had nothing to do, to be joined
  std::mutex joining_;  // held by who waits for them to end
};

/// Where one blocking caller waits, on its own stack, for all of its items: it is woken alone, and
/// once.
class CommitWaiter {
 public:
  explicit CommitWaiter(std::size_t items) : pending_(items) {}
  void count_down();
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable answered_;
  std::size_t pending_;
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
