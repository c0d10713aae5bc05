#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"
#include "watched.hpp"

namespace oncebox {

/// Closed at first. Handlers wait in it until the test opens it.
class Gate {
 public:
  void open() {
    open_.change([](bool& open) { open = true; });
  }
  void close() {
    open_.change([](bool& open) { open = false; });
  }
  void pass() const { EXPECT_TRUE(open_.wait_for(true)) << "nobody opened the gate"; }

 private:
  Watched<bool> open_{false};
};

/// Keeps the lines that it is given.
class RecordingLogger final : public Logger {
 public:
  [[nodiscard]] bool enabled(LogLevel level) const noexcept override;
  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept override;

  /// Waits for a line that begins so.
  [[nodiscard]] bool wait_for(std::string_view beginning) const;
  [[nodiscard]] bool contains(std::string_view text) const;
  [[nodiscard]] std::string all() const;

 private:
  Watched<std::vector<std::string>> lines_;
};

/// Counts the calls that reach the store, and can hold some of them up or let them fail.
class StoreProbe {
 public:
  explicit StoreProbe(QueueStore& below);

  [[nodiscard]] QueueStore& store() { return faulty_; }
  /// Asked before each call; counted already.
  void set_plan(std::function<testing::Fault(std::string_view call)> plan);
  [[nodiscard]] int calls(const std::string& call) const;
  [[nodiscard]] int calls() const;
  [[nodiscard]] bool wait_for_calls(const std::string& call, int at_least) const;

 private:
  using Counts = std::vector<std::pair<std::string, int>>;
  static int count_of(const Counts& counts, const std::string& call);
  testing::Fault on_call(std::string_view call);

  Watched<Counts> counts_;
  std::mutex mutex_;
  std::function<testing::Fault(std::string_view)> plan_;
  testing::FaultInjectingQueueStore faulty_;
};

/// A dispatcher over the memory store on a fake clock.
class DispatcherTest : public ::testing::Test {
 protected:
  /// Ends the dispatcher before what its handlers use: the variables of the test that were there
  /// when it was made.
  class [[nodiscard]] Ending {
   public:
    explicit Ending(DispatcherTest& test) : test_(test) {}
    ~Ending() {
      test_.gate_.open();
      test_.dispatcher_.reset();
    }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

   private:
    DispatcherTest& test_;
  };

  static Message message(const std::string& id, const std::string& topic = "order.created");
  void enqueue(const Message& message) { queue().enqueue(message); }
  /// Enqueues "m0", "m1" …
  void enqueue_many(std::size_t count, const std::string& topic = "order.created");

  [[nodiscard]] QueueStore& queue() { return store_.inbox(); }
  [[nodiscard]] MessageRecord record(const std::string& id);
  /// Waits until the store says so.
  [[nodiscard]] bool wait_for_status(const std::string& id, Status status);

  Ending make_dispatcher(const DispatcherOptions& options = {});
  Ending start(const DispatcherOptions& options = {});
  /// Moves the clock and tells the dispatcher.
  void advance(Duration by);

  testing::FakeClock clock_;
  memory::MemoryStore store_{clock_};
  StoreProbe probe_{store_.inbox()};
  RecordingLogger logger_;
  Observer silent_observer_;
  Observer* observer_ = &silent_observer_;
  Gate gate_;  ///< opened at the latest when the dispatcher ends
  Handlers handlers_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

}  // namespace oncebox
