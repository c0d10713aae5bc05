#include "store_lane.hpp"

#include <utility>

namespace oncebox::dispatcher {

namespace {

// A store that tells of work needs few polls.
engine::ClaimCycle::Settings cycle_of(MemberStore& member, const StoreLane::Parts& parts) {
  const bool notifies = member.store().capabilities().notifies;
  return {.poll = parts.options.poll_interval,
          .longest_poll = notifies ? parts.notified_poll_interval : parts.options.max_poll_interval,
          .longest_rest = parts.options.max_poll_interval};
}

}  // namespace

bool LanesByName::operator()(const StoreLane* a, const StoreLane* b) const {
  return a->name() != b->name() ? a->name() < b->name() : a->number() < b->number();
}

StoreLane::StoreLane(std::uint64_t number, MemberStorePtr member, Observer& observer,
                     const Parts& parts, LaneEvents& events)
    : cycle(cycle_of(*member, parts)),
      number_(number),
      member_(std::move(member)),
      events_(events),
      store_(member_->store().queue(parts.queue), member_->name(),
             {parts.logger, observer, parts.clock, parts.tracer}),
      table_(parts.capacity, parts.clock),
      settler_({store_, table_, parts.room, *this, parts.counters, parts.logger, observer,
                parts.clock, member_->name(), parts.dead_handlers},
               [this] { events_.on_verdicts(*this); }),
      origin_{member_->name(), settler_, observer, store_.transactional(), parts.tracer},
      keeper_({store_, table_, parts.ready, parts.workers, parts.counters, parts.logger, observer,
               parts.clock, member_->name()},
              {parts.options.lease, parts.options.reap_interval}) {
  HungryLanes alone{this};
  hungry_entry = alone.extract(alone.begin());
}

}  // namespace oncebox::dispatcher
