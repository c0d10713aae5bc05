#include "claim_gate.hpp"

#include <algorithm>

namespace oncebox::dispatcher {

ClaimGate::ClaimGate(const Bounds& bounds, const ReadyQueue& ready, const InFlightTable& table,
                     IdleWatch& idle, const Clock& clock)
    : bounds_(bounds),
      ready_(ready),
      table_(table),
      idle_(idle),
      listener_(std::make_shared<ClaimSignal>(clock)) {}

ClaimGate::Room ClaimGate::room() const noexcept {
  const std::size_t batch = std::min(bounds_.batch_size, bounds_.max_buffered);
  const std::size_t expected = messages_expected_.load();
  const std::size_t buffered = ready_.size() + expected;
  const std::size_t places = bounds_.max_buffered - std::min(buffered, bounds_.max_buffered);
  if (places < batch || table_.free() < batch + expected) return {};
  // From half of it on, so that large messages come in batches too.
  const std::size_t held = bytes_held_.load() + bytes_expected_.load();
  if (held > bounds_.buffer_bytes / 2) return {};
  return {batch, bounds_.buffer_bytes - held};
}

WakeSignal::Reasons ClaimGate::wait_for_room() {
  // Announced before looking: a worker that makes room after the look sees the wish.
  wants_room_ = true;
  WakeSignal::Reasons woken = 0;
  while (room().messages == 0 && (woken & ClaimReasons::kUrgent) == 0) {
    woken |= signal().wait(ClaimReasons::kRoom | ClaimReasons::kUrgent);
  }
  wants_room_ = false;
  return woken;
}

std::size_t ClaimGate::idle_workers() {
  wants_idle_ = true;  // said before looking, as above
  const std::size_t idle = ready_.idle();
  if (idle > 0) wants_idle_ = false;
  return idle;
}

void ClaimGate::on_idle() noexcept {
  if (wants_idle_.load() && wants_idle_.exchange(false)) signal().raise(ClaimReasons::kIdle);
}

void ClaimGate::expect(const Room& expected) noexcept {
  messages_expected_ = expected.messages;
  bytes_expected_ = expected.bytes;
}

void ClaimGate::on_room() noexcept {
  if (table_.size() == 0) idle_.on_change();
  if (!wants_room_.load() || room().messages == 0) return;
  signal().raise(ClaimReasons::kRoom);
}

void ClaimGate::on_due(TimePoint time) noexcept {
  TimePoint known = earliest_due_.load();
  while (time < known) {
    if (!earliest_due_.compare_exchange_weak(known, time)) continue;
    signal().raise(ClaimReasons::kDue);
    return;
  }
}

}  // namespace oncebox::dispatcher
