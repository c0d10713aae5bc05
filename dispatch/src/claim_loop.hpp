#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "admission.hpp"
#include "claim_gate.hpp"
#include "counters.hpp"
#include "idle_watch.hpp"
#include "in_flight.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/engine/claim_cycle.hpp"
#include "oncebox/log.hpp"
#include "oncebox/queue_store.hpp"
#include "routes.hpp"

namespace oncebox::dispatcher {

/// Claims ahead of the workers, for those topics that have room, and hands what it gets to them.
/// Its cycle says when; while it waits, it offers to take what is enqueued.
class ClaimLoop final : public WorkReport {
 public:
  struct Parts {
    QueueStore& store;
    Routes& routes;
    ClaimGate& gate;
    InFlightTable& table;
    Origin& origin;
    Admission& admission;
    IdleWatch& idle;
    Counters& counters;
    Logger& logger;
    const Clock& clock;
    const std::string& store_name;
  };

  struct Settings {
    OwnerToken owner;
    WorkerName worker;
    Duration lease;
    Duration poll_interval;
    Duration max_poll_interval;
  };

  ClaimLoop(const Parts& parts, const Settings& settings);

  /// The work of its thread, until a stop is requested.
  void run(const std::stop_token& stop);

  // For threads that wait until there is nothing to do.

  [[nodiscard]] std::size_t in_flight() const override { return parts_.table.size(); }
  [[nodiscard]] std::uint64_t admitted() const override { return parts_.gate.admitted(); }
  std::uint64_t ask_to_look() override;
  [[nodiscard]] bool has_found_nothing(std::uint64_t look, Duration due_within) const override;

 private:
  class Offer;
  /// The last look that found nothing at all.
  struct FoundNothing {
    std::uint64_t look = 0;
    TimePoint due = kMaxTime;  ///< when there will be something
  };
  using ClaimCycle = engine::ClaimCycle;

  void look(ClaimCycle::Do what);
  void report(ClaimCycle::Do what, std::uint64_t look, const ClaimCycle::Found& found);
  ClaimCycle::Found claim(ClaimCycle::Do what, std::size_t room, TimePoint now);
  ClaimCycle::Claimed claim(const std::optional<ClaimPlan>& plan);
  [[nodiscard]] ClaimRequest request_for(const ClaimPlan& plan, const ClaimGate::Room& room) const;
  void take_in(std::vector<ClaimedMessage>&& claimed, TimePoint lease_until);
  [[nodiscard]] std::optional<TimePoint> ask_next_due(const ClaimPlans& plans);
  void make_offer() noexcept;
  void recall_offer();
  void take_offered(std::vector<ClaimedMessage>&& claimed, TimePoint lease_until) noexcept;
  void wait_for_work();
  void hear(WakeSignal::Reasons woken);
  void on_failure(const std::exception& failure);

  const Parts parts_;
  const Settings settings_;
  ClaimCycle cycle_;
  bool limited_first_ = false;
  std::optional<ClaimPlan> unlimited_;  // of the last claim: what may be offered while it waits
  std::shared_ptr<Offer> offer_;        // not answered, as far as this thread knows
  std::uint64_t works_ = 0;             // what the listener had heard before the last claim

  std::atomic<std::uint64_t> looks_asked_ = 0;
  std::atomic<bool> is_being_offered_ = false;  // a thread that enqueues brings messages
  mutable detail::Mutex report_mutex_;
  FoundNothing found_nothing_ ONCEBOX_GUARDED_BY(report_mutex_);
};

}  // namespace oncebox::dispatcher
