#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "admission.hpp"
#include "claim_gate.hpp"
#include "counters.hpp"
#include "in_flight.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/queue_store.hpp"
#include "routes.hpp"

namespace oncebox::dispatcher {

/// Claims ahead of the workers, for those topics that have room, and hands what it gets to them.
/// While there is nothing to claim it waits for a notification, for the next message that becomes
/// due, or for a poll whose interval grows. Meanwhile it offers to take what is enqueued.
class ClaimLoop {
 public:
  struct Parts {
    QueueStore& store;
    Routes& routes;
    ClaimGate& gate;
    InFlightTable& table;
    Origin& origin;
    Admission& admission;
    Counters& counters;
    Logger& logger;
    const Clock& clock;
    const std::string& store_name;
  };

  struct Settings {
    OwnerToken owner;
    Duration lease;
    Duration poll_interval;
    Duration max_poll_interval;
    int max_deliveries;
  };

  ClaimLoop(const Parts& parts, const Settings& settings);

  /// The work of its thread, until a stop is requested.
  void run(const std::stop_token& stop);

 private:
  class Offer;
  enum class Found { everything, more };  // whether there may be more to claim at once

  void look();
  [[nodiscard]] ClaimRequest request_for(const ClaimPlan& plan, const ClaimGate::Room& room) const;
  Found claim(const std::optional<ClaimPlan>& plan);
  void take_in(std::vector<ClaimedMessage>&& claimed, TimePoint lease_until);
  void ask_next_due(const ClaimPlans& plans);
  void make_offer(const std::optional<ClaimPlan>& plan);
  void recall_offer();
  void take_offered(std::vector<ClaimedMessage>&& claimed, TimePoint lease_until) noexcept;
  void wait_for_work(const ClaimPlans& plans);
  void pause_after_failure(const std::exception& failure);

  const Parts parts_;
  const Settings settings_;
  bool limited_first_ = false;
  Duration poll_in_;
  std::optional<SteadyTime> waits_since_;  // the last claim
  bool timed_out_ = false;                 // the last wait ended by itself
  std::optional<TimePoint> due_;           // asked since the last wait; `kMaxTime`: nothing
  std::shared_ptr<Offer> offer_;           // not answered, as far as this thread knows
  bool only_answered_ = false;             // the last wait ended by an answer and nothing else
  std::uint64_t works_ = 0;                // what the listener had heard before the last claim
  TimePoint claimed_at_{};
  Duration failure_pause_{0};
};

}  // namespace oncebox::dispatcher
