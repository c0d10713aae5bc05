#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/store.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/watch_report.hpp"

namespace oncebox {

struct WatchdogOptions {
  Duration interval = std::chrono::seconds{30};  ///< between two looks at a store
  /// One delivery holds a message for so many times its lease, extending it; counted from when this
  /// process first saw it. How long the lease is shows in how much of it looks have found left.
  std::size_t held_leases = 10;
  /// And at least for so long: where leases are short, work often takes many of them.
  Duration held_after = std::chrono::minutes{5};
  /// A lease ended so long ago, and nobody has reaped it or claimed the message.
  Duration lapsed_after = std::chrono::minutes{10};
  /// A message could be claimed for so long, and nobody did.
  Duration ready_after = std::chrono::minutes{15};
  Duration slow_after = std::chrono::seconds{5};  ///< a look takes so long
  /// More than so many are ready, and ever more with each look for `growing_looks` of them.
  std::size_t backlog = 10'000;
  std::size_t growing_looks = 10;
  /// Of what ended in the last `poison_window`, at least so many died, and at least this
  /// part of them.
  Duration poison_window = std::chrono::minutes{15};
  std::size_t poison_deaths = 10;
  std::size_t poison_percent = 50;
  /// Looks at the same time, not counting those that hang; threads start when they are needed.
  std::size_t threads = 4;

  /// Throws `out_of_range`, naming the option.
  void validate() const;
};

/// A queue at the moment of a look. Borrowed for the call.
struct QueueLook {
  const std::string& store;
  std::string_view queue;  ///< the word of a QueueKind
  QueueOperator& operations;
  const QueueStats& stats;
  TimePoint now{};
};

/// Hears of every look, on a thread of the watchdog, one at a time for each store. May call the
/// store; what it throws is logged as a failed look.
class LookListener {
 public:
  virtual ~LookListener() = default;
  virtual void on_look(const QueueLook& look) = 0;
  virtual void on_removed(const std::string& store) noexcept = 0;
};

/// A store to be watched. All of it is borrowed until the store is removed and `keep_alive` let go.
struct WatchedStore {
  std::string name;
  std::string server = {};  ///< the database server that it lives on; empty: one of its own
  Store& store;
  std::shared_ptr<void> keep_alive = {};
};

/// Looks at any number of stores now and then, and reports what should not be so. A finding is
/// logged once when it appears, and once when it is gone: when two looks in a row have found the
/// contrary, by a margin. A store in which nothing is unfinished is looked at half as often each
/// time, down to a quarter.
///
/// Costs a count by topic for each look, and a walk over what is unfinished while something is
/// leased or ready; where that is more than 10,000 messages, leases that are held for too long are
/// not looked for, and those that were found stay as they are. (One that has lapsed counts as ready
/// then, and is late after `ready_after`.)
///
/// Looks at stores of database servers that fail or hang have threads of their own, see
/// `Housekeeping`.
///
/// **Threads.** Every call but the destructor may be made from any thread at any time.
class Watchdog {
 public:
  /// The listeners are borrowed. Of the surroundings, logger and clock are used. Throws
  /// `out_of_range` for an option that makes no sense.
  explicit Watchdog(const WatchdogOptions& options = {}, std::vector<LookListener*> listeners = {},
                    const Surroundings& surroundings = {});
  /// Stops, as `stop` does.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Throws `invalid_argument` when a store of this name is there.
  void add(WatchedStore store);
  /// No look at it begins any more; one that runs is not waited for. Its findings are gone.
  void remove(std::string_view name);
  /// Watches every store of the set, as they come and go, for as long as this object lives.
  void follow(StoreSet& stores);
  /// Waits for the looks that run; none begins any more.
  void stop();

  /// What the last looks found, and the looks that hang now. Asks no store.
  [[nodiscard]] WatchdogReport report() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// What one look at a store tells, with no memory of others: of leases only those that have lapsed
/// count, and a store that fails has failed. Does not throw for a store that is down.
[[nodiscard]] WatchdogReport look_once(const std::string& name, Store& store,
                                       const WatchdogOptions& options = {},
                                       const Clock& clock = SystemClock::shared());

}  // namespace oncebox
