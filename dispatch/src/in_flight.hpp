#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/detail/open_span.hpp"
#include "oncebox/message.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/tracing.hpp"
#include "oncebox/transaction.hpp"
#include "routes.hpp"

namespace oncebox::dispatcher {

class Settler;

/// Where a message came from, and where its verdict goes.
struct Origin {
  std::string_view store;
  Settler& settler;
  Observer& observer;
  TransactionalQueue* transactions = nullptr;  ///< null: the store has none
  Tracer* tracer = nullptr;                    ///< null: nobody
  /// The object that this is a part of, for a thread that uses it after it has given a verdict,
  /// which may end the object; empty: it outlives the workers.
  std::weak_ptr<void> whole = {};
  std::atomic<std::size_t> waiting = 0;  ///< for a worker; counted by a `FairReadyQueue`
  std::atomic<std::size_t> bytes = 0;    ///< of its payloads; counted by a `SetScheduler`
};

/// A message from its claim until its verdict is recorded. It is handed over from the thread that
/// claims to a worker and from there to the settler; only the thread that has it touches its
/// members, except the atomic ones, at which any thread may look.
struct InFlight {
  enum class Stage { buffered, running, finished };

  std::optional<ClaimedMessage> claimed;
  Origin* origin = nullptr;
  Route* route = nullptr;  ///< null: nobody handles it
  double place = 0;        ///< in a `FairReadyQueue`: lower goes first
  std::size_t bytes = 0;   ///< of its payload, headers and their copy, while they are in memory
  Verdict verdict;
  bool is_recorded = false;      ///< the verdict was committed with what the handler did
  bool may_be_recorded = false;  ///< the store has, or may have, taken the verdict
  Duration waited{};             ///< until it was handled, from when it could be claimed
  detail::OpenSpan handling;     ///< while it is handled
  detail::OpenSpan settling;     ///< until the verdict is recorded
  InFlight* next_finished = nullptr;

  std::atomic<Stage> stage = Stage::buffered;
  std::atomic<bool> lease_lost = false;
  std::atomic<TimePoint> lease_until = TimePoint{};  ///< by the clock of this process

 private:
  /// A later delivery of the same message, whose lease is kept until the first one has ended.
  struct Newer {
    DeliveryNumber number;
    int content_version;
  };

  // Touched by the table alone, under its lock.
  friend class InFlightTable;
  std::optional<Newer> newer_;
  unsigned renewed_in_round_ = 0;
  InFlight* next_in_bucket_ = nullptr;
  std::size_t hash_ = 0;
};

/// A lease that is to be extended, and where it came from.
struct Renewal {
  InFlight* message = nullptr;
  DeliveryNumber number{};
};

/// Every message in flight, by its key. So a handler never runs twice at once for one message, even
/// when its lease lapsed and the message was claimed again: the later delivery waits, and the
/// verdict of the first run settles it if the content is the same. Safe from any thread.
class InFlightTable {
 public:
  /// The clock is borrowed.
  InFlightTable(std::size_t capacity, const Clock& clock);

  [[nodiscard]] std::size_t size() const noexcept { return size_.load(); }
  [[nodiscard]] std::size_t free() const noexcept { return capacity_ - size_.load(); }

  /// Takes in what was claimed, at most as many as are free. The answer has one entry for each; a
  /// null one stands for a message that is in flight already.
  std::vector<InFlight*> admit(std::vector<ClaimedMessage>&& claimed, TimePoint lease_until);

  /// Writes what to tell the store of these into the first elements of `settlements`, which grows
  /// as needed. A verdict goes to the newest delivery. But one that has other content, or that may
  /// have come because the verdict was recorded, is released instead, to be run on its own.
  void address(std::span<InFlight* const> messages, std::vector<Settlement>& settlements);

  /// Lets go of settled ones, which were settled as in `settlements`. Answers those that came again
  /// meanwhile and have to be settled again.
  std::vector<InFlight*> release(std::span<InFlight* const> messages,
                                 std::span<const Settlement> settlements);

  /// Begins a new round of lease extensions, `rounds` after the last one, and answers those that
  /// were neither claimed nor extended in this round or the one before.
  std::vector<Renewal> due_for_renewal(unsigned rounds, Duration lease,
                                       std::vector<LeaseExtension>& extensions);

  /// Notes how the extensions went. Answers the places of those that wait or run and were lost.
  std::vector<std::size_t> renewed(std::span<const Renewal> renewals,
                                   std::span<const ExtendOutcome> outcomes, TimePoint lease_until);

  /// While the table is held it is not quiet, even when it is empty: more may come.
  void hold() noexcept;
  void unhold() noexcept;
  /// Waits until it is empty and not held; false when the deadline passed first.
  bool wait_quiet_until(SteadyTime deadline);
  [[nodiscard]] bool is_quiet() const;

 private:
  InFlight* find(const MessageKey& key, std::size_t hash) const noexcept ONCEBOX_REQUIRES(mutex_);
  void make_unused(std::size_t count) ONCEBOX_REQUIRES(mutex_);
  void grow_buckets(std::size_t count) ONCEBOX_REQUIRES(mutex_);
  void insert(InFlight& message) noexcept ONCEBOX_REQUIRES(mutex_);
  void erase(InFlight& message) noexcept ONCEBOX_REQUIRES(mutex_);
  void wake_if_quiet() noexcept ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] bool has_nothing() const noexcept ONCEBOX_REQUIRES(mutex_) {
    return size_ == 0 && holds_ == 0;
  }

  const std::size_t capacity_;
  std::atomic<std::size_t> size_ = 0;  // written under the lock
  mutable detail::Mutex mutex_;
  detail::TimedCondition quiet_;
  // Grow to the most that were in flight at a time, not before: there may be many tables.
  std::deque<InFlight> all_ ONCEBOX_GUARDED_BY(mutex_);                 // its elements never move
  std::vector<InFlight*> unused_ ONCEBOX_GUARDED_BY(mutex_);            // has room for all of them
  std::vector<InFlight*> buckets_ ONCEBOX_GUARDED_BY(mutex_){nullptr};  // a power of two
  unsigned round_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::size_t holds_ ONCEBOX_GUARDED_BY(mutex_) = 0;
};

}  // namespace oncebox::dispatcher
