#include "oncebox/detail/commit_queue.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::detail {

namespace {

constexpr std::size_t kMaxCommitters = 64;

void validate(const GroupCommitOptions& options) {
  constexpr std::size_t kUnbounded = static_cast<std::size_t>(-1);
  require_in_range("max_batch", options.max_batch, 1, limits::kMaxBatchItems);
  require_in_range("max_batch_bytes", options.max_batch_bytes, 1, kUnbounded);
  require_in_range("max_queued", options.max_queued, 1, kUnbounded);
  require_in_range("max_queued_bytes", options.max_queued_bytes, 1, kUnbounded);
  require_in_range("number of committers", options.committers, 1, kMaxCommitters);
  require_in_range("idle_time", options.idle_time, std::chrono::milliseconds{1},
                   std::chrono::milliseconds{std::chrono::hours{24}});
}

}  // namespace

// CommitTickets ---------------------------------------------------------------------------------

void CommitTickets::append(CommitTicket& ticket) noexcept {
  (first_ == nullptr ? first_ : last_->next) = &ticket;
  ticket.previous = last_;
  last_ = &ticket;
  ++size_;
  bytes_ += ticket.bytes;
}

void CommitTickets::append(const CommitTickets& tickets) noexcept {
  if (tickets.empty()) return;
  (first_ == nullptr ? first_ : last_->next) = tickets.first_;
  tickets.first_->previous = last_;
  last_ = tickets.last_;
  size_ += tickets.size_;
  bytes_ += tickets.bytes_;
}

void CommitTickets::remove(CommitTicket& ticket) noexcept {
  (ticket.previous == nullptr ? first_ : ticket.previous->next) = ticket.next;
  (ticket.next == nullptr ? last_ : ticket.next->previous) = ticket.previous;
  ticket.next = ticket.previous = nullptr;
  --size_;
  bytes_ -= ticket.bytes;
}

CommitTickets CommitTickets::take_front(std::size_t max_items, std::size_t max_bytes) noexcept {
  // The usual case: no need to walk the list.
  if (size_ <= max_items && bytes_ <= max_bytes) return std::exchange(*this, {});
  CommitTickets taken;
  while (first_ != nullptr) {
    const bool fits = taken.size_ < max_items && first_->bytes <= max_bytes &&
                      taken.bytes_ <= max_bytes - first_->bytes;
    if (!fits && !taken.empty()) break;
    CommitTicket& ticket = *first_;
    first_ = ticket.next;
    ticket.next = nullptr;
    --size_;
    bytes_ -= ticket.bytes;
    taken.append(ticket);
  }
  if (first_ == nullptr) {
    last_ = nullptr;
  } else {
    first_->previous = nullptr;
  }
  return taken;
}

// CommitQueue -----------------------------------------------------------------------------------

CommitQueue::CommitQueue(const GroupCommitOptions& options, CommitBatch commit_batch,
                         const Clock& clock)
    : options_(options), commit_batch_(std::move(commit_batch)), clock_(clock), wake_(clock) {
  validate(options_);
}

CommitQueue::~CommitQueue() { stop(); }

void CommitQueue::push(const CommitTickets& tickets) {
  bool wake = false;
  {
    const Lock lock(mutex_);
    require_room_for(tickets);
    if (!have_committer()) {
      throw Error(ErrorCode::overloaded,
                  "the system has no thread for the commit; try again later");
    }
    queue(tickets);
    wake = idle_ > 0 && may_commit();
  }
  if (wake) wake_.notify_one();
}

void CommitQueue::push_or_commit(const CommitTickets& tickets) {
  {
    const Lock lock(mutex_);
    require_room_for(tickets);
    const bool leads = queued_.empty() && may_commit();
    if (!leads) {
      // The thread that commits now takes them next, or wakes another one that does.
      queue(tickets);
      if (may_commit() && have_committer() && idle_ > 0) wake_.notify_one();
      return;
    }
    ++committing_;
  }
  commit_batch_(tickets);
  // Notified under the lock: a thread that waits in `stop` may destroy this object next.
  const LimitsOf others;
  Lock lock(mutex_);
  --committing_;
  while (!queued_.empty() && may_commit() && !have_committer()) {
    const CommitTickets batch = queued_.take_front(options_.max_batch, options_.max_batch_bytes);
    ++committing_;
    lock.unlock();
    commit_batch_(batch);
    lock.lock();
    --committing_;
  }
  if (stopped_ || (!queued_.empty() && idle_ > 0)) wake_.notify_all();
}

void CommitQueue::queue(const CommitTickets& tickets) noexcept {
  for (CommitTicket* ticket = tickets.first(); ticket != nullptr; ticket = ticket->next) {
    ticket->number = ++last_number_;
  }
  queued_.append(tickets);
}

bool CommitQueue::withdraw(CommitTicket& ticket) {
  const Lock lock(mutex_);
  const bool is_queued = !queued_.empty() && ticket.number >= queued_.first()->number;
  if (!is_queued) return false;
  queued_.remove(ticket);
  if (stopped_) wake_.notify_all();
  return true;
}

bool CommitQueue::have_committer() {
  ended_.clear();  // joins threads that never take the lock again
  if (idle_ > 0 || threads_.size() == options_.committers) return true;
  try {
    const auto self = threads_.emplace(threads_.end());
    try {
      *self = std::jthread([this, self] { run(self); });
    } catch (...) {
      threads_.erase(self);
      throw;
    }
  } catch (const std::exception&) {
    return !threads_.empty();
  }
  ++idle_;
  return true;
}

void CommitQueue::require_room_for(const CommitTickets& tickets) const {
  if (stopped_) {
    throw Error(ErrorCode::unavailable,
                "no more items are accepted, because the group commit was stopped");
  }
  require_in_range("number of items submitted together", tickets.size(), 1, options_.max_queued);
  if (queued_.empty()) return;
  const bool fits = tickets.size() <= options_.max_queued - queued_.size() &&
                    queued_.bytes() <= options_.max_queued_bytes &&
                    tickets.bytes() <= options_.max_queued_bytes - queued_.bytes();
  if (fits) return;
  throw Error(
      ErrorCode::overloaded,
      fmt::format("{} items of {} bytes wait to be committed, at most {} items of {} bytes "
                  "may; try again later, or raise max_queued or max_queued_bytes",
                  queued_.size(), queued_.bytes(), options_.max_queued, options_.max_queued_bytes));
}

void CommitQueue::stop() {
  const Lock joining(joining_);
  Threads threads;
  const Lock lock(mutex_);
  stopped_ = true;
  wake_.notify_all();
  while (committing_ > 0 || !queued_.empty()) wake_.wait(mutex_);
  threads.splice(threads.end(), threads_);
  threads.splice(threads.end(), ended_);
}

std::size_t CommitQueue::size() const {
  const Lock lock(mutex_);
  return queued_.size();
}

std::size_t CommitQueue::threads() const {
  const Lock lock(mutex_);
  return threads_.size();
}

bool CommitQueue::wait_for_work() {
  if (has_work()) return true;
  SteadyTime rest_at = clock_.steady() + options_.idle_time;
  while (!has_work()) {
    if (wake_.wait_until(mutex_, rest_at) || has_work()) continue;
    if (queued_.empty()) return false;
    rest_at = clock_.steady() + options_.idle_time;  // all committers are busy: there is work
  }
  return true;
}

// `have_committer` has counted the new thread as idle.
void CommitQueue::run(Threads::iterator self) noexcept {
  Lock lock(mutex_);
  for (;;) {
    const bool has_to_rest = !wait_for_work();
    --idle_;
    if (has_to_rest) {
      ended_.splice(ended_.end(), threads_, self);
      return;
    }
    const CommitTickets batch = queued_.take_front(options_.max_batch, options_.max_batch_bytes);
    if (batch.empty()) return;
    ++committing_;
    if (!queued_.empty() && may_commit() && have_committer()) wake_.notify_one();
    lock.unlock();
    commit_batch_(batch);
    lock.lock();
    --committing_;
    ++idle_;
    if (stopped_) wake_.notify_all();
  }
}

// CommitWaiter ----------------------------------------------------------------------------------

void CommitWaiter::count_down() {
  // Notified under the lock: the waiting caller destroys this object as soon as it has the lock.
  const Lock lock(mutex_);
  is_answered_ = true;
  answered_.notify_one();
}

void CommitWaiter::wait() {
  const Lock lock(mutex_);
  while (!is_answered_) answered_.wait(mutex_);
}

// LimitedWaiter ---------------------------------------------------------------------------------

void LimitedWaiter::expect(std::size_t items) {
  const Lock lock(mutex_);
  pending_ = items;
}

void LimitedWaiter::count_down() noexcept {
  if (--pending_ == 0) answered_.notify_all();
}

bool LimitedWaiter::wait(const CallOptions& limits) {
  const NotifyOnStop wake(limits.stop, mutex_, answered_);
  const Lock lock(mutex_);
  while (pending_ > 0 && !limits.is_over()) {
    answered_.wait_until(mutex_, limits.deadline_or(SteadyTime::max()));
  }
  return pending_ == 0;
}

// CommitFailure ---------------------------------------------------------------------------------

CommitFailure CommitFailure::current() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what(), error.retryable()};
  } catch (const std::bad_alloc&) {
    // Every item gets it, and may come again: the memory may be there then.
    return {ErrorCode::unavailable, "no memory for the commit", true};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, fmt::format("the commit failed: {}", error.what()), false};
  } catch (...) {
    return {ErrorCode::internal, "the commit failed with an unknown exception", false};
  }
}

CommitFailure CommitFailure::wrong_number_of_outcomes(std::size_t items, std::size_t got) {
  // Of the whole batch: it may have taken effect, so it is not committed again.
  return {ErrorCode::internal,
          fmt::format("the commit answered {} outcomes for {} items", got, items), true};
}

}  // namespace oncebox::detail
