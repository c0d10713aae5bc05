#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "row_batch.hpp"

namespace oncebox::postgresql {

/// Tells other processes that a queue has work. A NOTIFY makes commits wait for each other, so only
/// now and then one goes with a transaction; what comes in between is announced together, a little
/// later, by a thread. Every call is safe from any thread.
class Announcer {
 public:
  /// Sends an announcement by itself. Called by the thread; what it throws is ignored, because a
  /// worker that hears nothing polls.
  using Send = std::function<void(const Announcement& announcement)>;

  /// The clock is borrowed.
  Announcer(const Clock& clock, std::string channel, std::string text, Send send);
  ~Announcer();
  Announcer(const Announcer&) = delete;
  Announcer& operator=(const Announcer&) = delete;

  /// Called before a commit that brings work: what is to be announced with it, if it is the time.
  [[nodiscard]] std::optional<Announcement> next();
  /// Called after a commit that brought work and had nothing to announce.
  void soon();

 private:
  void run();
  /// Answers whether there is something to announce; false when the thread is to end.
  [[nodiscard]] bool wait_for_turn() ONCEBOX_REQUIRES(mutex_);

  const Clock& clock_;
  const std::string channel_;
  const std::string text_;
  const Send send_;
  detail::Mutex mutex_;
  detail::TimedCondition wake_;
  SteadyTime last_ ONCEBOX_GUARDED_BY(mutex_){};
  bool is_pending_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ONCEBOX_GUARDED_BY(mutex_) = false;
  /// Last: uses the members above. Started when it is first needed.
  std::jthread thread_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::postgresql
