#include "store_lane.hpp"

#include <utility>

namespace oncebox::dispatcher {

StoreLane::StoreLane(MemberStorePtr member, Observer& observer, const Parts& parts,
                     LaneEvents& events)
    : member_(std::move(member)),
      events_(events),
      store_(member_->store().inbox(), member_->name(), parts.logger, observer, parts.clock),
      table_(parts.capacity),
      settler_({store_, table_, parts.room, *this, parts.counters, parts.logger, observer,
                parts.clock, member_->name()},
               [this] { events_.on_verdicts(*this); }),
      origin_{member_->name(), settler_, observer, store_.transactional()},
      keeper_({store_, table_, parts.ready, parts.workers, parts.counters, parts.logger, observer,
               parts.clock, member_->name()},
              {parts.options.lease, parts.options.reap_interval, *parts.options.max_deliveries}) {
  const bool notifies = member_->store().capabilities().notifies;
  state.poll_in = parts.options.poll_interval;
  state.max_poll = notifies ? parts.notified_poll_interval : parts.options.max_poll_interval;
}

}  // namespace oncebox::dispatcher
