#include "claim_floors.hpp"

#include <algorithm>
#include <tuple>

#include "oncebox/queue_types.hpp"

namespace oncebox::postgresql {

namespace {

using namespace std::chrono_literals;

// A message may be committed this much later than the time that it bears without being overlooked.
constexpr Duration kCommitSlack = 1s;
constexpr SteadyTime::duration kLookAtAllEvery = 5s;
// Looking at everything may take this part of the time, unless that would put it off for too long.
constexpr int kCheapness = 20;
constexpr SteadyTime::duration kLookAtAllAtLeastEvery = 30s;
// A process asks for few selections; if it asks for many, none of them matters.
constexpr std::size_t kMaxSelections = 64;

}  // namespace

std::string ClaimFloors::name_of(const TopicSelection& topics) {
  std::string name;
  for (const auto* patterns : {&topics.only, &topics.except}) {
    for (const TopicPattern& pattern : *patterns) {
      name += pattern.is_exact() ? '=' : '~';
      name += pattern.str();
      name += '\0';
    }
    name += '\1';
  }
  return name;
}

void ClaimFloors::raise(Place& place, const Place& to) {
  const auto order = [](const Place& p) { return std::tie(p.eligible_at, p.enqueue_order); };
  if (order(place) < order(to)) place = to;
}

std::optional<TimePoint> ClaimFloors::lapsed() {
  const detail::Lock lock(mutex_);
  return lapsed_;
}

void ClaimFloors::forget() {
  const detail::Lock lock(mutex_);
  by_selection_.clear();
  lapsed_.reset();
}

ClaimFloors::Floors ClaimFloors::before_claim(const TopicSelection& topics) {
  const detail::Lock lock(mutex_);
  if (by_selection_.size() > kMaxSelections) by_selection_.clear();
  Known& known = by_selection_[name_of(topics)];
  if (clock_.steady() >= known.look_at_all_at) return {.is_complete = true};
  return {.by_priority = known.by_priority, .lapsed = lapsed_};
}

void ClaimFloors::after_claim(const TopicSelection& topics, const Floors& used,
                              const Claimed& claimed) {
  const detail::Lock lock(mutex_);
  // The clock went back, perhaps because another server has taken over: what we know is of no use.
  // Answers that cross on their way look the same, but not by this much.
  if (claimed.now + kCommitSlack < latest_now_) {
    by_selection_.clear();
    lapsed_.reset();
    latest_now_ = claimed.now;
  }
  latest_now_ = std::max(latest_now_, claimed.now);
  const Place safe{claimed.now - kCommitSlack, 0};
  lapsed_ = std::max(lapsed_.value_or(safe.eligible_at), safe.eligible_at);
  Known& known = by_selection_[name_of(topics)];
  if (used.is_complete) {
    const auto interval =
        std::clamp(kCheapness * claimed.took, kLookAtAllEvery, kLookAtAllAtLeastEvery);
    known.look_at_all_at = clock_.steady() + interval;
  }
  if (claimed.is_exhausted) {
    for (auto& [priority, place] : known.by_priority) raise(place, safe);
  }
  // A priority is left for the next one only when nothing of it is left, so of each the last
  // counts.
  for (const sql::StoredMessage& message : claimed.messages) {
    Place place{message.state.eligible_at, static_cast<std::int64_t>(message.state.enqueue_order)};
    if (std::tie(safe.eligible_at, safe.enqueue_order) <
        std::tie(place.eligible_at, place.enqueue_order)) {
      place = safe;
    }
    raise(known.by_priority[message.state.priority.value()], place);
  }
}

}  // namespace oncebox::postgresql
