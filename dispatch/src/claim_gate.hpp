#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "claim_hints.hpp"
#include "idle_watch.hpp"
#include "in_flight.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/driver/work_listener.hpp"
#include "ready_queue.hpp"
#include "wake_signal.hpp"

namespace oncebox::dispatcher {

/// Why the claim loop wakes.
struct ClaimReasons {
  static constexpr WakeSignal::Reasons kWork = 1;  ///< the store says that there may be work
  static constexpr WakeSignal::Reasons kRoom = 2;  ///< the buffer or a limited route has room again
  static constexpr WakeSignal::Reasons kDue = 4;   ///< something is due earlier than it knew
  static constexpr WakeSignal::Reasons kLook = 8;  ///< somebody called `wake`, `resume` or the like
  static constexpr WakeSignal::Reasons kStop = 16;
  static constexpr WakeSignal::Reasons kOffer = 32;  ///< its offer was answered
  static constexpr WakeSignal::Reasons kIdle = 64;   ///< a worker has nothing to do
  static constexpr WakeSignal::Reasons kUrgent = kLook | kStop | kOffer;
  static constexpr WakeSignal::Reasons kAny = kWork | kRoom | kDue | kLook | kStop | kOffer | kIdle;
};

/// The signal of the claim loop as a listener of the store, which may outlive the dispatcher for
/// the length of a call.
class ClaimSignal final : public WorkListener {
 public:
  explicit ClaimSignal(const Clock& clock) : signal(clock) {}

  void on_work() noexcept override {
    works.fetch_add(1);
    signal.raise(ClaimReasons::kWork);
  }
  std::atomic<std::uint64_t> works = 0;  ///< how often it was told
  WakeSignal signal;
};

/// Tells when the claim loop may claim how much, and wakes it when that changes; tells also those
/// who wait for the end of all work. Safe from any thread.
class ClaimGate final : public RoomHints, public WorkHints {
 public:
  struct Bounds {
    std::size_t batch_size;
    std::size_t max_buffered;
    std::size_t buffer_bytes;
  };

  /// What one claim may bring; nothing while `messages` is 0.
  struct Room {
    std::size_t messages = 0;
    std::size_t bytes = 0;
  };

  ClaimGate(const Bounds& bounds, const ReadyQueue& ready, const InFlightTable& table,
            IdleWatch& idle, const Clock& clock);

  [[nodiscard]] WakeSignal& signal() noexcept { return listener_->signal; }
  [[nodiscard]] const std::shared_ptr<ClaimSignal>& listener() const noexcept { return listener_; }

  /// None until a whole batch fits, so that claims do not crumble.
  [[nodiscard]] Room room() const noexcept;
  /// Waits for room, and answers why it woke meanwhile. `kUrgent` reasons end the wait without
  /// room.
  [[nodiscard]] WakeSignal::Reasons wait_for_room();
  /// From now on there is so much less of it: somebody else may be about to bring it.
  void expect(const Room& expected) noexcept;

  /// Workers that wait and for which there is no message yet. When there are none, the next
  /// `on_idle` tells.
  [[nodiscard]] std::size_t idle_workers();

  /// How many messages were admitted so far.
  [[nodiscard]] std::uint64_t admitted() const noexcept { return admitted_.load(); }

  void on_admitted(Origin& /*origin*/, std::size_t bytes) noexcept override {
    admitted_.fetch_add(1);
    bytes_held_.fetch_add(bytes);
  }
  void on_payload_freed(Origin& /*origin*/, std::size_t bytes) noexcept override {
    bytes_held_.fetch_sub(bytes);
  }
  void on_room() noexcept override;
  void on_idle() noexcept override;
  void on_limit_eased() noexcept override { signal().raise(ClaimReasons::kRoom); }
  void on_due(TimePoint time) noexcept override;
  void on_claimable() noexcept override { signal().raise(ClaimReasons::kWork); }

  /// The earliest time that was reported since the last call; `kMaxTime` when there was none.
  TimePoint take_due() noexcept { return earliest_due_.exchange(kMaxTime); }

 private:
  const Bounds bounds_;
  const ReadyQueue& ready_;
  const InFlightTable& table_;
  IdleWatch& idle_;
  std::shared_ptr<ClaimSignal> listener_;
  std::atomic<std::uint64_t> admitted_ = 0;
  std::atomic<std::size_t> bytes_held_ = 0;
  std::atomic<std::size_t> messages_expected_ = 0;
  std::atomic<std::size_t> bytes_expected_ = 0;
  std::atomic<bool> wants_room_ = false;
  std::atomic<bool> wants_idle_ = false;
  std::atomic<TimePoint> earliest_due_ = kMaxTime;
};

}  // namespace oncebox::dispatcher
