#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

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

  Announcer(std::string channel, std::string text, Send send);
  ~Announcer();
  Announcer(const Announcer&) = delete;
  Announcer& operator=(const Announcer&) = delete;

  /// Called before a commit that brings work: what is to be announced with it, if it is the time.
  [[nodiscard]] std::optional<Announcement> next();
  /// Called after a commit that brought work and had nothing to announce.
  void soon();

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  void run(const std::stop_token& stop);

  const std::string channel_;
  const std::string text_;
  const Send send_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  SteadyTime last_{};
  bool is_pending_ = false;
  std::jthread thread_;  // last: uses the members above; started when it is first needed
};

}  // namespace oncebox::postgresql
