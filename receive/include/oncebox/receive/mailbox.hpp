#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

/// What a mailbox does with an item for which it has no room.
enum class WhenFull {
  reject,       ///< refuse it: the sender keeps it
  wait,         ///< let the sender wait for room
  drop_newest,  ///< take it and drop it
  drop_oldest,  ///< drop the one that has waited longest, and take it
};

enum class PostOutcome {
  accepted,
  full,       ///< not taken: there is no room, or was none in time
  dropped,    ///< taken and dropped, see `WhenFull::drop_newest`
  cancelled,  ///< not taken: the sender's stop token was requested while it waited
  stopped,    ///< not taken: the mailbox stops
};

/// Why an item that was taken is never handled.
enum class DropReason { no_room, stopped };

struct MailboxOptions {
  std::size_t capacity = 1'024;  ///< items that wait; the one that is handled does not count
  WhenFull when_full = WhenFull::reject;

  /// Throws `out_of_range`, naming the option.
  void validate() const {
    require_in_range("capacity of a mailbox", capacity, 1, std::size_t{1} << 30U);
  }
};

/// How long a sender waits for room, where it waits at all.
struct PostWait {
  std::stop_token stop = {};
  std::optional<Duration> at_most = {};  ///< nothing, or years: as long as it takes
};

struct MailboxCounters {
  std::uint64_t accepted = 0;  ///< also those that were dropped or are still waiting
  std::uint64_t handled = 0;   ///< the handler has returned or thrown
  std::uint64_t failed = 0;    ///< of these, it has thrown
  std::uint64_t refused = 0;   ///< full, cancelled or stopped
  std::uint64_t dropped = 0;
  std::size_t waiting = 0;  ///< now

  friend bool operator==(const MailboxCounters&, const MailboxCounters&) = default;
};

struct MailboxStop {
  /// How long what waits may still be handled. The rest is dropped; the handler that runs is asked
  /// to stop, and waited for. `Duration::max()`: for ever.
  Duration finish_within = defaults::kFinishWithin;
};

/// Handles items one after the other, in the order in which they were accepted, on a thread of its
/// own that starts with the first: work of this process that must not overlap.
///
///     Mailbox<Order> mailbox([](Order& order, const std::stop_token&) { print_label(order); },
///                            {.capacity = 100, .when_full = WhenFull::wait});
///     mailbox.post(std::move(order));
///
/// What an item throws ends nothing but its own handling: it is counted, and told to `on_error`.
/// Nothing here survives the process.
///
/// **Threads.** Every call but the destructor may be made from any thread, also by the handler; one
/// that posts to its own full mailbox and waits would wait for itself, and is told `full` instead.
/// Nothing of the user's is called under a lock: no handler, callback, or callback of a stop token.
template <class Item>
class Mailbox {
 public:
  using Handle = std::function<void(Item& item, const std::stop_token& stop)>;

  /// Called outside every lock. Both may be empty; neither may throw.
  struct Callbacks {
    /// On the thread that posted, or that stops.
    std::function<void(Item&& item, DropReason reason)> on_dropped = {};
    /// On the mailbox's thread, in a catch clause.
    std::function<void(const Item& item)> on_error = {};
  };

  /// The clock, by which senders and `stop` wait, is borrowed. Throws as `MailboxOptions::validate`
  /// does.
  explicit Mailbox(Handle handle, const MailboxOptions& options = {}, Callbacks callbacks = {},
                   const Clock& clock = SystemClock::shared())
      : handle_(std::move(handle)),
        options_(options),
        callbacks_(std::move(callbacks)),
        clock_(clock),
        changed_(clock) {
    options_.validate();
  }
  /// Drops what waits, asks the handler that runs to stop, and waits for it. Not to be called by
  /// the handler.
  ~Mailbox() { stop_now(); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Moves from the item only when it was accepted or dropped.
  PostOutcome post(Item&& item, const PostWait& wait = {});
  PostOutcome post(const Item& item, const PostWait& wait = {}) { return post(Item(item), wait); }

  /// Takes nothing more; senders that wait for room are told `stopped`. What was accepted is
  /// handled within the time given, and dropped after it. Answers how many were dropped by this
  /// call. Returns when the handler has ended; called by the handler itself, it only begins to
  /// stop, and drops what waits.
  std::size_t stop(const MailboxStop& options = {});
  std::size_t stop_now() { return stop({.finish_within = Duration::zero()}); }

  /// Waits until nothing waits and nothing is handled. Throws `conflict` when the handler calls it,
  /// which would wait for itself.
  void wait_until_idle() {
    const detail::Lock lock(mutex_);
    if (called_by_handler()) {
      throw Error(ErrorCode::conflict, "the handler of a mailbox cannot wait until it is idle");
    }
    while (!idle()) changed_.wait(mutex_);
  }

  [[nodiscard]] MailboxCounters counters() const {
    const detail::Lock lock(mutex_);
    MailboxCounters now = counters_;
    now.waiting = items_.size();
    return now;
  }

 private:
  /// Any duration as one that can be waited for: a clock counts no more than some centuries.
  [[nodiscard]] static Duration waitable(Duration time) {
    return std::clamp(time, Duration::zero(), limits::kMaxDelay);
  }
  [[nodiscard]] bool full() const ONCEBOX_REQUIRES(mutex_) {
    return items_.size() >= options_.capacity;
  }
  [[nodiscard]] bool idle() const ONCEBOX_REQUIRES(mutex_) { return items_.empty() && !handling_; }
  [[nodiscard]] bool called_by_handler() const ONCEBOX_REQUIRES(mutex_) {
    return std::this_thread::get_id() == handler_thread_;
  }
  /// Whether a sender has to wait: the handler cannot make room while it posts itself.
  [[nodiscard]] bool has_to_wait() const ONCEBOX_REQUIRES(mutex_) {
    return options_.when_full == WhenFull::wait && full() && !stopping_ && !called_by_handler();
  }
  /// Nothing when there is room or the mailbox stops; otherwise why the item is not taken.
  std::optional<PostOutcome> wait_for_room(const PostWait& wait) ONCEBOX_REQUIRES(mutex_);
  void accept(Item&& item) ONCEBOX_REQUIRES(mutex_);
  PostOutcome refuse(PostOutcome outcome) ONCEBOX_REQUIRES(mutex_) {
    ++counters_.refused;
    return outcome;
  }
  void drop(Item&& item, DropReason reason) {
    if (callbacks_.on_dropped) callbacks_.on_dropped(std::move(item), reason);
  }
  void run(const std::stop_token& stop);
  bool handle(Item& item, const std::stop_token& stop) noexcept;

  const Handle handle_;
  const MailboxOptions options_;
  const Callbacks callbacks_;

  const Clock& clock_;

  detail::Mutex joining_;  // held by the thread that joins the handler's
  mutable detail::Mutex mutex_;
  detail::TimedCondition changed_;
  std::deque<Item> items_ ONCEBOX_GUARDED_BY(mutex_);
  MailboxCounters counters_ ONCEBOX_GUARDED_BY(mutex_);
  bool handling_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool stopping_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::thread::id handler_thread_ ONCEBOX_GUARDED_BY(mutex_);  // while it runs
  // Last: it uses the members above. Started under `mutex_`, unless the mailbox stops; joined under
  // `joining_`, after it stops.
  std::jthread thread_;
};

template <class Item>
PostOutcome Mailbox<Item>::post(Item&& item, const PostWait& wait) {
  std::optional<Item> displaced;
  std::optional<detail::NotifyOnStop> notify;  // outlives the lock, which its end may wait for
  {
    detail::Lock lock(mutex_);
    if (has_to_wait()) {
      lock.unlock();
      notify.emplace(wait.stop, mutex_, changed_);
      lock.lock();
      if (const auto refused = wait_for_room(wait)) return refuse(*refused);
    }
    if (stopping_) return refuse(PostOutcome::stopped);
    if (!full()) {
      accept(std::move(item));
      return PostOutcome::accepted;
    }
    const bool drops =
        options_.when_full == WhenFull::drop_newest || options_.when_full == WhenFull::drop_oldest;
    if (!drops) return refuse(PostOutcome::full);
    ++counters_.dropped;
    if (options_.when_full == WhenFull::drop_oldest) {
      displaced.emplace(std::move(items_.front()));
      items_.pop_front();
      accept(std::move(item));
    }
  }
  if (!displaced) {
    drop(std::move(item), DropReason::no_room);
    return PostOutcome::dropped;
  }
  drop(*std::move(displaced), DropReason::no_room);
  return PostOutcome::accepted;
}

template <class Item>
std::optional<PostOutcome> Mailbox<Item>::wait_for_room(const PostWait& wait) {
  const SteadyTime until =
      wait.at_most ? clock_.steady() + waitable(*wait.at_most) : SteadyTime::max();
  bool in_time = true;
  while (has_to_wait() && in_time && !wait.stop.stop_requested()) {
    in_time = changed_.wait_until(mutex_, until);
  }
  if (!has_to_wait()) return std::nullopt;
  return wait.stop.stop_requested() ? PostOutcome::cancelled : PostOutcome::full;
}

template <class Item>
void Mailbox<Item>::accept(Item&& item) {
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  items_.push_back(std::move(item));
  ++counters_.accepted;
  changed_.notify_all();
}

template <class Item>
std::size_t Mailbox<Item>::stop(const MailboxStop& options) {
  std::deque<Item> dropped;
  bool by_handler = false;
  std::stop_source handler_stop(std::nostopstate);  // requested outside the lock: it runs callbacks
  {
    const detail::Lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    by_handler = called_by_handler();
    const SteadyTime finish_at = clock_.steady() + waitable(options.finish_within);
    bool in_time = !by_handler;
    while (!idle() && in_time) in_time = changed_.wait_until(mutex_, finish_at);
    dropped.swap(items_);
    counters_.dropped += dropped.size();
    handler_stop = thread_.get_stop_source();
    changed_.notify_all();
  }
  handler_stop.request_stop();
  for (Item& item : dropped) drop(std::move(item), DropReason::stopped);
  if (by_handler) return dropped.size();
  const detail::Lock lock(joining_);
  if (thread_.joinable()) thread_.join();
  return dropped.size();
}

template <class Item>
void Mailbox<Item>::run(const std::stop_token& stop) {
  detail::Lock lock(mutex_);
  handler_thread_ = std::this_thread::get_id();
  while (true) {
    while (!stopping_ && items_.empty()) changed_.wait(mutex_);
    if (items_.empty()) break;
    std::optional<Item> item(std::move(items_.front()));
    items_.pop_front();
    handling_ = true;
    changed_.notify_all();
    lock.unlock();
    const bool succeeded = handle(*item, stop);
    item.reset();  // outside the lock: its destructor is the user's
    lock.lock();
    handling_ = false;
    ++counters_.handled;
    if (!succeeded) ++counters_.failed;
    changed_.notify_all();
  }
  handler_thread_ = {};
}

template <class Item>
bool Mailbox<Item>::handle(Item& item, const std::stop_token& stop) noexcept {
  try {
    handle_(item, stop);
    return true;
  } catch (...) {
    if (callbacks_.on_error) callbacks_.on_error(item);
    return false;
  }
}

}  // namespace oncebox
