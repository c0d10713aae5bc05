#include "oncebox/engine/claim_cycle.hpp"

#include <algorithm>
#include <chrono>

namespace oncebox::engine {

namespace {

// A time that is thousands of years away would overflow the steady clock. It is asked for again
// after a day.
constexpr Duration kFarAway = std::chrono::days{1};

SteadyTime steady_time_of(TimePoint time, const ClaimCycle::Now& now) {
  return now.steady + std::clamp(time - now.wall, Duration{0}, kFarAway);
}

}  // namespace

ClaimCycle::ClaimCycle(const Settings& settings)
    : poll_({.first = settings.poll, .longest = settings.longest_poll}),
      rest_({.first = kFirstRest, .longest = settings.longest_rest}),
      clock_pause_({.first = kFirstClockPause, .longest = settings.longest_poll}) {}

ClaimCycle::Step ClaimCycle::next(SteadyTime now) const {
  if (is_claiming_) return {Do::wait};
  if (next_ == Do::claim || next_ == Do::ask_due_and_claim) return {next_};
  const SteadyTime until = next_ == Do::wait ? std::min(until_, told_due_) : until_;
  return until <= now ? Step{Do::ask_due_and_claim} : Step{next_, until};
}

void ClaimCycle::on_news() noexcept {
  if (is_claiming_) {
    heard_news_ = true;
  } else if (next_ != Do::rest) {
    next_ = Do::claim;
  }
}

void ClaimCycle::on_due(TimePoint time, const Now& now) noexcept {
  told_due_ = std::min(told_due_, steady_time_of(time, now));
}

void ClaimCycle::on_eased() noexcept {
  if (is_claiming_) {
    heard_ease_ = true;
  } else if (next_ == Do::wait && lacks_room_) {
    next_ = Do::claim;
  }
}

void ClaimCycle::on_look() noexcept {
  if (is_claiming_) {
    heard_look_ = true;
  } else if (next_ == Do::wait || next_ == Do::rest) {
    next_ = Do::ask_due_and_claim;
  }
}

void ClaimCycle::begin(Do what, const Now& now) noexcept {
  if (next_ == Do::wait && poll_at_ <= now.steady) poll_.grow();
  if (next_ == Do::wait && clock_pause_ends_at_ <= now.steady) clock_pause_.grow();
  is_claiming_ = true;
  has_asked_ = what == Do::ask_due_and_claim;
  heard_news_ = heard_ease_ = heard_look_ = false;
  began_at_ = now.wall;
  // What was told before is in the answer to the question that comes before the next wait.
  told_due_ = SteadyTime::max();
}

void ClaimCycle::found(const Found& found, const Now& now) noexcept {
  is_claiming_ = false;
  lacks_room_ = found.lacks_room;
  rest_.reset();
  if (found.claimed != Claimed::nothing) {
    poll_.reset();
    clock_pause_.reset();
  }
  const bool has_room_again = heard_ease_ && lacks_room_;
  if (heard_news_ || has_room_again || found.claimed == Claimed::full) {
    next_ = Do::claim;
  } else if (heard_look_ || !has_asked_ || found.claimed == Claimed::some) {
    next_ = Do::ask_due_and_claim;
  } else {
    wait(found, now);
  }
}

void ClaimCycle::wait(const Found& found, const Now& now) noexcept {
  next_ = Do::wait;
  poll_at_ = now.steady + poll_.pause();
  clock_pause_ends_at_ = SteadyTime::max();
  SteadyTime due_at = SteadyTime::max();
  // A due time that had come before the claim began did not help it: the store's clock is behind.
  if (found.due && *found.due <= began_at_) {
    clock_pause_ends_at_ = now.steady + clock_pause_.pause();
  } else {
    clock_pause_.reset();
    if (found.due) due_at = steady_time_of(*found.due, now);
  }
  const SteadyTime room_at = steady_time_of(found.room_at, now);
  until_ = std::min({poll_at_, due_at, clock_pause_ends_at_, room_at});
}

Duration ClaimCycle::failed(const Now& now) noexcept {
  is_claiming_ = false;
  const Duration rest = rest_.take();
  if (heard_look_) {
    next_ = Do::ask_due_and_claim;
    return Duration::zero();
  }
  next_ = Do::rest;
  until_ = now.steady + rest;
  return rest;
}

}  // namespace oncebox::engine
