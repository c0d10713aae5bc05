#include "dispatcher/claim_gate.hpp"

#include <algorithm>

namespace oncebox::dispatcher {

ClaimGate::ClaimGate(const Bounds& bounds, const ReadyQueue& ready, const InFlightTable& table)
    : bounds_(bounds), ready_(ready), table_(table) {}

ClaimGate::Room ClaimGate::room() const noexcept {
  const std::size_t batch = std::min(bounds_.batch_size, bounds_.max_buffered);
  const std::size_t buffered = ready_.size();
  const std::size_t places = bounds_.max_buffered - std::min(buffered, bounds_.max_buffered);
  if (std::min(places, table_.free()) < batch) return {};
  // From half of it on, so that large messages come in batches too.
  const std::size_t held = bytes_held_.load();
  if (held > bounds_.buffer_bytes / 2) return {};
  return {batch, bounds_.buffer_bytes - held};
}

bool ClaimGate::wait_for_room() {
  constexpr WakeSignal::Reasons kUrgent = ClaimReasons::kLook | ClaimReasons::kStop;
  // Announced before looking: whoever makes room after the look sees the wish.
  wants_room_ = true;
  bool has_room = room().messages > 0;
  while (!has_room) {
    const WakeSignal::Reasons woken = signal().wait(ClaimReasons::kRoom | kUrgent);
    has_room = room().messages > 0;
    if ((woken & kUrgent) != 0) break;
  }
  wants_room_ = false;
  return has_room;
}

void ClaimGate::on_room() noexcept {
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
