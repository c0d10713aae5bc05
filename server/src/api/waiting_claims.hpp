#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_hold.hpp"
#include "api/call_pool.hpp"
#include "api/fair_places.hpp"
#include "api/timers.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/driver/work_listener.hpp"
#include "oncebox/engine/claim_cycle.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/log.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/wire/queue_json.hpp"

namespace oncebox::server {

class StoreMetrics;

/// The claims of one queue: answers them, and lets those wait that find nothing and may. No thread
/// is held while a claim waits. They are tried again when the queue says that there is work, when
/// the next message is due, and now and then without either. The oldest is served first.
///
/// A claim whose client goes away takes nothing any more, and gives back what it was just taking.
class WaitingClaims final : public WorkListener {
 public:
  struct Parts {
    std::weak_ptr<void> holder;  ///< owns this object and the queue
    QueueStore& queue;
    CallLane& calls;
    Timers& timers;
    FairPlaces& places;  ///< of claims that wait, over all queues
    StoreMetrics& metrics;
    Logger& logger;
    const Clock& clock;
  };

  struct Settings {
    std::string_view store;  ///< in log lines
    std::string_view queue;
    Duration poll = defaults::kPollInterval;  ///< how often to try without word of work
  };

  /// To be closed before what it was given goes.
  WaitingClaims(const Parts& parts, Settings settings);

  /// Answers now or within `call.wait`. Throws `overloaded` when too many calls wait for the store.
  void claim(const ExchangePtr& exchange, wire::ClaimCall call);

  /// Something may be claimed: it was enqueued, or a topic is paused no more.
  void on_work() noexcept override;

  /// The tokens have been read again. A claim whose token was taken back is refused; one whose
  /// token was changed is answered with nothing, and its client asks again.
  void check_tokens();

  /// Answers those that wait with nothing. Later ones are answered at once, whatever they find.
  void drain() noexcept;

  /// The same, and nothing is touched any more that was given to the constructor, once the calls
  /// that run have ended.
  void close() noexcept;

  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_count_.load(); }

 private:
  struct Claim;
  using ClaimPtr = std::shared_ptr<Claim>;
  struct Look;
  /// What a try has claimed, with the memory that it takes.
  struct Taken {
    AnswerHold hold;
    std::vector<ClaimedMessage> messages = {};
  };
  /// The last try of a claim, before it waits.
  struct Tried {
    engine::ClaimCycle::Now began;  ///< before the question
    std::uint64_t seen_work = 0;    ///< by then
    std::optional<TimePoint> due = {};
  };

  /// Keeps this, and the queue, for what goes on later. Null when nobody else has it any more.
  [[nodiscard]] std::shared_ptr<WaitingClaims> self();

  void listen();
  void try_first(const ClaimPtr& claim);
  [[nodiscard]] Taken take(Claim& claim);
  void deliver(const ClaimPtr& claim, Taken taken);
  void release(const std::vector<ClaimedMessage>& messages) noexcept;
  void release(const std::vector<Settlement>& settlements) noexcept;
  void log_not_released(std::size_t count, const std::exception& failure) noexcept;
  void end_empty(Claim& claim) noexcept;
  /// Or the refusal, when its token no longer allows the claim.
  static void send_empty(const Claim& claim) noexcept;
  void fail(const ClaimPtr& claim, const std::exception_ptr& failure) noexcept;

  void park(const ClaimPtr& claim, const Tried& tried);
  void withdraw(const ClaimPtr& claim) noexcept;
  void check_token(const ClaimPtr& claim);
  void expire(const ClaimPtr& claim) noexcept;

  void scan() noexcept;
  /// Tries those that wait, and asks when the next message is due. Whether one found something.
  [[nodiscard]] bool look_through(std::optional<TimePoint>& earliest_due);
  /// False when there was nothing for it.
  [[nodiscard]] bool try_again(const ClaimPtr& claim);
  void fail_all(const std::exception_ptr& failure) noexcept;

  void leave(Claim& claim) noexcept ONCEBOX_REQUIRES(mutex_);
  void leave(Claim& claim, std::list<ClaimPtr>& to) noexcept ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] std::list<ClaimPtr> end_waiting() noexcept ONCEBOX_REQUIRES(mutex_);
  void note(const Tried& tried) noexcept ONCEBOX_REQUIRES(mutex_);
  /// When to scan, as the cycle and the pause after an empty scan have it.
  [[nodiscard]] SteadyTime next_scan(SteadyTime now) noexcept ONCEBOX_REQUIRES(mutex_);
  void plan_scan() noexcept ONCEBOX_REQUIRES(mutex_);

  const Parts parts_;
  const Settings settings_;
  std::atomic<std::uint64_t> work_ = 0;  ///< how often there was word of work
  std::atomic<std::size_t> waiting_count_ = 0;
  std::once_flag listens_;

  detail::Mutex mutex_;                                     ///< also of what changes in a `Claim`
  std::list<ClaimPtr> waiting_ ONCEBOX_GUARDED_BY(mutex_);  ///< the oldest first
  bool draining_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool closed_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool scanning_ ONCEBOX_GUARDED_BY(mutex_) = false;
  engine::ClaimCycle cycle_ ONCEBOX_GUARDED_BY(mutex_);  ///< a scan is its claim
  /// After scans that found nothing, so that idle ones cost little.
  detail::Backoff pause_ ONCEBOX_GUARDED_BY(mutex_);
  SteadyTime quiet_until_ ONCEBOX_GUARDED_BY(mutex_){};
  const engine::StoreCalls::Lane scans_;
};

}  // namespace oncebox::server
