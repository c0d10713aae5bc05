#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "claim_hints.hpp"
#include "counters.hpp"
#include "dead_handlers.hpp"
#include "in_flight.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_store.hpp"

namespace oncebox::dispatcher {

/// Records the verdicts of one store. While one batch is being recorded the next one gathers;
/// nothing waits for a timer. A store that fails is asked again with growing pauses; a verdict that
/// it refuses for good is logged, and its lease lapses.
class Settler {
 public:
  struct Parts {
    QueueStore& store;
    InFlightTable& table;
    RoomHints& room;
    WorkHints& work;
    Counters& counters;
    Logger& logger;
    Observer& observer;
    const Clock& clock;
    const std::string& store_name;
    const DeadHandlers& dead_handlers;
  };

  /// `step` has nothing to do until `submit` calls this.
  using OnVerdicts = std::function<void()>;

  Settler(const Parts& parts, OnVerdicts on_verdicts);

  /// Takes a message over whose verdict is given. From any thread.
  void submit(InFlight& message) noexcept;

  static constexpr SteadyTime kNothingLeft = SteadyTime::max();

  /// Records a batch, if there is one. Answers when to call it again, by one thread at a time: at
  /// once for a time that has come, or `kNothingLeft`.
  SteadyTime step();
  /// Whether `step` has something to record. For the thread that calls it.
  [[nodiscard]] bool has_verdicts() const noexcept {
    return submitted_.load() != nullptr || gathered_ != nullptr || !pending_.empty();
  }

  /// From now on a call that fails is not repeated.
  void stop_repeating() noexcept { repeats_ = false; }

 private:
  void gather();
  void let_go_of_recorded();
  void settle_next();
  void conclude(std::size_t count, const std::vector<SettleOutcome>& outcomes);
  void count(InFlight& message, const Settlement& settlement, const SettleOutcome& outcome);
  void on_death(const ClaimedMessage& claimed, const Verdict& verdict, SettledDeath death);
  void on_failure(std::size_t count, const std::exception& failure);
  void give_up(std::size_t count, const char* why);
  void drop_first(std::size_t count);

  const Parts parts_;
  const OnVerdicts on_verdicts_;
  std::atomic<InFlight*> submitted_ = nullptr;  // a stack, taken as a whole
  std::atomic<bool> repeats_ = true;

  // Of the thread that calls `step`.
  InFlight* gathered_ = nullptr;  // what it has taken of them, and has no room for yet
  std::vector<InFlight*> pending_;
  std::vector<InFlight*> recorded_;
  std::vector<Settlement> settlements_;  // only ever grows: see `InFlightTable::address`
  std::size_t one_by_one_ = 0;           // so many of the first go alone, to find the bad one
  detail::Backoff pause_;
  SteadyTime next_step_{};
};

}  // namespace oncebox::dispatcher
