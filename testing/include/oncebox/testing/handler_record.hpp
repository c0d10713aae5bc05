#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "oncebox/observer.hpp"
#include "oncebox/queue_types.hpp"

namespace oncebox::testing {

/// What the handlers of a dispatcher were called with, and how each call ended: the observer to
/// give to a dispatcher in a test.
///
///     HandlerRecord record;
///     Dispatcher dispatcher(store.inbox(), handlers, {}, {.observer = record});
///     …
///     expect(record.wait_for(2));
///     expect(record.calls().at(1).error() == "no such order");
///
/// Safe to use from any thread. A call is here before its end is recorded in the store.
class HandlerRecord final : public Observer {
 public:
  struct Call {
    ClaimedMessage claimed;
    Verdict verdict;
    std::chrono::nanoseconds took{};

    [[nodiscard]] bool succeeded() const noexcept;
    /// What the handler threw, as it is stored with the message; empty when it succeeded.
    [[nodiscard]] std::string error() const;
  };

  /// All calls so far, in the order in which they ended.
  [[nodiscard]] std::vector<Call> calls() const;
  /// The same of one message.
  [[nodiscard]] std::vector<Call> calls_of(const MessageKey& key) const;

  /// Waits until so many calls have ended; false when the time is over.
  [[nodiscard]] bool wait_for(std::size_t calls,
                              std::chrono::milliseconds timeout = std::chrono::seconds{30}) const;

  void on_handler_end(const ClaimedMessage& claimed, const Verdict& verdict,
                      std::chrono::nanoseconds took) noexcept override;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  std::vector<Call> calls_;
};

}  // namespace oncebox::testing
