#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "ledger.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/store.hpp"
#include "recording_queue.hpp"

namespace oncebox::workers {

/// Wakes those who wait for the work to get on.
class Progress final : public Observer {
 public:
  void on_settle(const Settlement& /*settlement*/,
                 const SettleOutcome& /*outcome*/) noexcept override {
    settled_.notify_all();
  }
  void on_store_call(std::string_view /*call*/, std::size_t /*items*/,
                     std::chrono::nanoseconds /*took*/, bool failed) noexcept override {
    if (!failed) return;
    failed_ = true;
    settled_.notify_all();
  }

  /// Asks again after each settlement, and now and then for what other processes settle.
  template <class Condition>
  void wait_until(Condition condition) {
    constexpr std::chrono::milliseconds kAskAgain{20};
    while (!condition()) {
      std::unique_lock lock(mutex_);
      settled_.wait_for(lock, kAskAgain);
    }
  }

  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  std::mutex mutex_;
  std::condition_variable settled_;
  std::atomic<bool> failed_ = false;
};

/// Ends this process as the kernel would.
[[noreturn]] void die();

/// Works for so long, unless it is stopped: then it throws.
void take_time(std::chrono::microseconds time, const std::stop_token& stop);

struct WorkerOptions {
  Duration lease{};  ///< that the dispatcher takes
  Duration
      slow_work{};  ///< how long a slow message takes: long enough for the lease to be extended
};

/// An inbox and a dispatcher on a store. They do what `workload.hpp` says, and write it down.
class Worker {
 public:
  /// Store and ledger are borrowed.
  Worker(Store& store, Ledger& ledger, const WorkerOptions& options);

  /// Answers when the message is taken in, and how; throws what the inbox throws.
  EnqueueStatus offer(const std::string& id);
  EnqueueStatus offer(const Message& message);

  void start() { dispatcher_.start(); }

  /// Until the store has nothing left to hand out, now or later.
  void drain() {
    progress_.wait_until([this] { return unfinished() == 0; });
  }

  /// Throws what the store throws.
  [[nodiscard]] std::size_t unfinished();
  /// The same, or nothing when the store cannot tell.
  [[nodiscard]] std::optional<std::size_t> perhaps_unfinished();

  [[nodiscard]] Progress& progress() noexcept { return progress_; }

 private:
  Handlers handlers();
  void work_on(const ClaimedMessage& claimed, const std::stop_token& stop);

  Store& store_;
  Ledger& ledger_;
  const WorkerOptions options_;
  SystemClock clock_;
  NullLogger logger_;
  Progress progress_;
  RecordingQueue queue_;
  Inbox inbox_;
  Dispatcher dispatcher_;
};

}  // namespace oncebox::workers
