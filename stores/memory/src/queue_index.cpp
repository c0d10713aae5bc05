#include "queue_index.hpp"

#include <algorithm>

namespace oncebox::memory {

namespace {

std::size_t place(Phase phase) { return static_cast<std::size_t>(phase); }

template <class Index>
void erase_from(Index& index, Row& row) noexcept {
  index.erase(index.iterator_to(row));
}

// The longest time that a ready row has been eligible. Within one priority the rows stand in the
// order of that time, so the first of each priority is enough.
std::optional<TimePoint> oldest_ready(const ReadyRows& ready) {
  std::optional<TimePoint> oldest;
  auto row = ready.begin();
  while (row != ready.end()) {
    const TimePoint eligible_at = row->state.eligible_at;
    if (!oldest || eligible_at < *oldest) oldest = eligible_at;
    row = ready.upper_bound(ClaimRank{row->state.priority, TimePoint::max(), UINT64_MAX});
  }
  return oldest;
}

}  // namespace

QueueIndex::QueueIndex() : unenqueued_(&lane("")) {}

QueueIndex::~QueueIndex() {
  // The rows go all at once; unlinking each in order would only cost time.
  for (auto& [topic, lane] : lanes_) {
    lane.ready.clear();
    lane.dead.clear();
  }
  for (auto& [key, partition] : partitions_) partition.rows.clear();
  active_lanes_.clear();
  by_id_.clear();
  waiting_.clear();
  leased_.clear();
  done_.clear();
  expiring_.clear();
}

Row& QueueIndex::create(const MessageKey& key, TimePoint now) {
  Row& row = rows_.insert(std::make_unique<Row>(key, last_row_id_ + 1));
  ++last_row_id_;
  row.state.lane = unenqueued_;
  row.state.history.first_seen_at = now;
  row.state.history.last_seen_at = now;
  by_id_.insert(by_id_.end(), row);
  attach(row, now);
  return row;
}

void QueueIndex::destroy(Row& row) noexcept {
  Lane& lane = *row.state.lane;
  detach(row);
  erase_from(by_id_, row);
  rows_.erase(row);
  drop_if_unused(lane);
}

Lane& QueueIndex::lane(std::string_view topic) {
  auto found = lanes_.find(topic);
  if (found == lanes_.end()) {
    found = lanes_.emplace(std::piecewise_construct, std::forward_as_tuple(topic), std::tuple<>{})
                .first;
    found->second.topic = &found->first;
  }
  return found->second;
}

Partition& QueueIndex::partition(const PartitionKey& key) {
  const auto [found, inserted] = partitions_.try_emplace(key.str());
  if (inserted) found->second.key = &found->first;
  return found->second;
}

void QueueIndex::drop_if_unused(Lane& lane) noexcept {
  if (lane.rows == 0 && lane.pins == 0 && &lane != unenqueued_)
    lanes_.erase(lanes_.find(*lane.topic));
}

void QueueIndex::drop_if_unused(Partition& partition) noexcept {
  if (partition.rows.empty() && partition.pins == 0) {
    partitions_.erase(partitions_.find(*partition.key));
  }
}

void QueueIndex::detach(Row& row) noexcept {
  leave(row);
  --row.state.lane->rows;
  if (row.state.worker != nullptr) --row.state.worker->leases;
  if (!row.partition_hook.is_linked()) return;
  Partition& partition = *row.partition;
  erase_from(partition.rows, row);
  if (partition.in_flight == &row) partition.in_flight = nullptr;
  if (partition.exposed == &row) partition.exposed = nullptr;
}

void QueueIndex::attach(Row& row, TimePoint now) noexcept {
  if (row.partition != nullptr && row.state.status == Status::processing) {
    row.partition->rows.insert(row);
    if (row.state.lease) row.partition->in_flight = &row;
  }
  ++row.state.lane->rows;
  if (row.state.lease) {
    ++row.state.worker->leases;
  } else {
    row.state.worker = nullptr;
  }
  enter(row, phase_at(row, now));
}

Phase QueueIndex::phase_at(const Row& row, TimePoint now) noexcept {
  switch (row.state.status) {
    case Status::seen:
      return Phase::seen;
    case Status::done:
      return Phase::done;
    case Status::dead:
      return Phase::dead;
    case Status::processing:
      break;
  }
  if (row.content == nullptr) return Phase::blocked;
  if (row.state.lease) return Phase::leased;
  const Partition* const partition = row.partition;
  if (partition != nullptr &&
      (partition->in_flight != nullptr || &*partition->rows.begin() != &row)) {
    return Phase::blocked;
  }
  if (row.state.eligible_at <= now) return Phase::ready;
  return row.state.backoff_until >= row.state.eligible_at ? Phase::backing_off : Phase::waiting;
}

void QueueIndex::enter(Row& row, Phase phase) noexcept {
  row.phase = phase;
  ++row.state.lane->rows_in[place(phase)];
  switch (phase) {
    case Phase::seen:
    case Phase::blocked:
      break;
    case Phase::waiting:
    case Phase::backing_off:
      waiting_.insert(row);
      break;
    case Phase::ready:
      enter_ready(row);
      break;
    case Phase::leased:
      leased_.insert(row);
      break;
    case Phase::done:
      done_.insert(done_.end(), row);
      break;
    case Phase::dead:
      row.state.lane->dead.insert(row);
      break;
  }
  const bool unleased = phase == Phase::blocked || phase == Phase::waiting ||
                        phase == Phase::backing_off || phase == Phase::ready;
  if (unleased && row.content != nullptr && row.state.expires_at) expiring_.insert(row);
}

void QueueIndex::leave(Row& row) noexcept {
  --row.state.lane->rows_in[place(row.phase)];
  switch (row.phase) {
    case Phase::seen:
    case Phase::blocked:
      break;
    case Phase::waiting:
    case Phase::backing_off:
      erase_from(waiting_, row);
      break;
    case Phase::ready:
      leave_ready(row);
      break;
    case Phase::leased:
      erase_from(leased_, row);
      break;
    case Phase::done:
      erase_from(done_, row);
      break;
    case Phase::dead:
      erase_from(row.state.lane->dead, row);
      break;
  }
  if (row.expiry_hook.is_linked()) erase_from(expiring_, row);
}

// A lane stands among the active ones by its best row, so it has to be taken out while that
// changes.
void QueueIndex::enter_ready(Row& row) noexcept {
  Lane& lane = *row.state.lane;
  const bool active = lane.active_hook.is_linked();
  if (active && rank_of(*lane.ready.begin()) < rank_of(row)) {
    lane.ready.insert(row);
    return;
  }
  if (active) active_lanes_.erase(active_lanes_.iterator_to(lane));
  lane.ready.insert(row);
  active_lanes_.insert(lane);
}

void QueueIndex::leave_ready(Row& row) noexcept {
  Lane& lane = *row.state.lane;
  if (&*lane.ready.begin() != &row) {
    erase_from(lane.ready, row);
    return;
  }
  active_lanes_.erase(active_lanes_.iterator_to(lane));
  erase_from(lane.ready, row);
  if (!lane.ready.empty()) active_lanes_.insert(lane);
}

void QueueIndex::settle_partition(Partition& partition, TimePoint now) noexcept {
  const bool closed = partition.in_flight != nullptr || partition.rows.empty();
  Row* const head = closed ? nullptr : &*partition.rows.begin();
  if (partition.exposed != nullptr && partition.exposed != head) {
    leave(*partition.exposed);
    enter(*partition.exposed, Phase::blocked);
  }
  if (head != nullptr && head->phase == Phase::blocked) {
    leave(*head);
    enter(*head, phase_at(*head, now));
  }
  partition.exposed = head;
}

void QueueIndex::promote(TimePoint now) noexcept {
  while (!waiting_.empty() && waiting_.begin()->state.eligible_at <= now) {
    Row& row = *waiting_.begin();
    leave(row);
    enter(row, Phase::ready);
  }
}

/// Goes through the lanes of the topics that a selection names, one at a time.
class QueueIndex::NamedLanes {
 public:
  NamedLanes(Lanes& lanes, const TopicSelection& topics) : lanes_(lanes), topics_(topics) {
    const auto is_every = [](const TopicPattern& pattern) {
      return !pattern.is_exact() && pattern.stem().empty();
    };
    names_everything_ = topics.only.empty() || std::ranges::any_of(topics.only, is_every);
  }

  /// False when it has arrived, which is never when everything is named.
  bool step() {
    if (names_everything_) return true;
    if (place_ == topics_.only.size()) return false;
    const TopicPattern& pattern = topics_.only[place_];
    if (!is_inside_) lane_ = lanes_.lower_bound(pattern.stem());
    is_inside_ = lane_ != lanes_.end() && pattern.matches(lane_->first);
    if (!is_inside_) {
      ++place_;
      return true;
    }
    if (!lane_->second.ready.empty() && topics_.matches(lane_->first)) {
      ready_.push_back(&lane_->second);
    }
    ++lane_;
    return true;
  }

  /// Those that have ready rows, each once.
  [[nodiscard]] std::vector<Lane*> take() {
    std::ranges::sort(ready_);
    ready_.erase(std::ranges::unique(ready_).begin(), ready_.end());
    return std::move(ready_);
  }

 private:
  Lanes& lanes_;
  const TopicSelection& topics_;
  bool names_everything_ = false;
  std::size_t place_ = 0;
  bool is_inside_ = false;
  Lanes::iterator lane_;
  std::vector<Lane*> ready_;
};

std::vector<Row*> QueueIndex::best_ready(std::size_t limit, const TopicSelection& topics,
                                         ClaimAllowance& allowance) {
  // Lanes are opened in the order of their best rows, and only when no opened one has a better row
  // left, so lanes that cannot contribute are never looked at. Topics of others can stand before
  // them in any number: so the named lanes are gone through at the same pace, and when these are
  // all known first, the others are left alone.
  struct OpenLane {
    ReadyRows::iterator next;
    ReadyRows::iterator end;
  };
  const auto worse = [](const OpenLane& a, const OpenLane& b) {
    return rank_of(*b.next) < rank_of(*a.next);
  };
  std::vector<Row*> best;
  std::vector<OpenLane> open;
  const auto open_lane = [&](Lane& opened) {
    open.push_back({opened.ready.begin(), opened.ready.end()});
    std::push_heap(open.begin(), open.end(), worse);
  };
  NamedLanes named(lanes_, topics);
  auto lane = active_lanes_.begin();
  while (best.size() < limit) {
    while (lane != active_lanes_.end() &&
           (open.empty() || rank_of(*lane->ready.begin()) < rank_of(*open.front().next))) {
      if (named.step()) {
        if (topics.matches(*lane->topic)) open_lane(*lane);
        ++lane;
        continue;
      }
      for (Lane* const other : named.take()) {
        const bool was_passed = rank_of(*other->ready.begin()) < rank_of(*lane->ready.begin());
        if (!was_passed) open_lane(*other);
      }
      lane = active_lanes_.end();
    }
    if (open.empty()) break;
    std::pop_heap(open.begin(), open.end(), worse);
    OpenLane& source = open.back();
    // What is forbidden once stays so for this claim, and with it the rest of the lane.
    const bool may_take = allowance.take(*source.next->state.lane->topic);
    if (may_take) best.push_back(&*source.next);
    if (!may_take || ++source.next == source.end) {
      open.pop_back();
    } else {
      std::push_heap(open.begin(), open.end(), worse);
    }
  }
  return best;
}

std::size_t QueueIndex::leased(const TopicPattern& topics) const noexcept {
  std::size_t count = 0;
  for (auto lane = lanes_.lower_bound(topics.stem());
       lane != lanes_.end() && topics.matches(lane->first); ++lane) {
    count += lane->second.rows_in[place(Phase::leased)];
  }
  return count;
}

std::optional<TimePoint> QueueIndex::next_due(const TopicSelection& topics,
                                              TimePoint now) const noexcept {
  std::optional<TimePoint> earliest;
  const auto consider = [&](TimePoint time) {
    if (time > now && (!earliest || time < *earliest)) earliest = time;
  };
  // Both indexes are in the order of time: past the earliest so far nothing can be earlier.
  const auto is_late = [&](TimePoint time) { return earliest && time >= *earliest; };
  for (const Row& row : waiting_) {
    if (is_late(row.state.eligible_at)) break;
    if (topics.matches(*row.state.lane->topic)) consider(row.state.eligible_at);
  }
  for (const Row& row : leased_) {
    const TimePoint lapse = row.state.lease->locked_until;
    if (is_late(lapse)) break;
    if (topics.matches(*row.state.lane->topic)) consider(row.state.not_before(lapse));
  }
  return earliest;
}

Row* QueueIndex::first_lapsed(TimePoint now) noexcept {
  if (leased_.empty() || leased_.begin()->state.lease->live_at(now)) return nullptr;
  return &*leased_.begin();
}

Row* QueueIndex::first_expired(TimePoint now) noexcept {
  if (expiring_.empty() || !expiring_.begin()->state.expired_at(now)) return nullptr;
  return &*expiring_.begin();
}

QueueStats QueueIndex::stats(TimePoint now) const {
  QueueStats stats;
  std::unordered_map<const Lane*, std::size_t> places;
  for (const auto& [topic, lane] : lanes_) {
    if (lane.rows == 0) continue;
    places.emplace(&lane, stats.topics.size());
    TopicStats& topic_stats = stats.topics.emplace_back();
    if (!topic.empty()) topic_stats.topic = Topic(topic);
    topic_stats.seen = lane.rows_in[place(Phase::seen)];
    topic_stats.ready = lane.rows_in[place(Phase::ready)];
    // Without content there is no topic, and whatever has one is blocked by its partition.
    const std::size_t blocked = lane.rows_in[place(Phase::blocked)];
    (topic.empty() ? topic_stats.waiting.content : topic_stats.waiting.partition) = blocked;
    topic_stats.waiting.due = lane.rows_in[place(Phase::waiting)];
    topic_stats.waiting.backoff = lane.rows_in[place(Phase::backing_off)];
    topic_stats.leased = lane.rows_in[place(Phase::leased)];
    topic_stats.done = lane.rows_in[place(Phase::done)];
    topic_stats.dead = lane.rows_in[place(Phase::dead)];
    topic_stats.oldest_ready_at = oldest_ready(lane.ready);
    if (!lane.dead.empty()) topic_stats.oldest_dead_at = lane.dead.begin()->state.finished_at;
  }
  // Whoever held these has lost them, though nobody has reaped them yet.
  for (auto row = leased_.begin(); row != leased_.end() && !row->state.lease->live_at(now); ++row) {
    TopicStats& topic_stats = stats.topics[places.at(row->state.lane)];
    --topic_stats.leased;
    const TimePoint eligible_at = row->state.not_before(row->state.lease->locked_until);
    if (eligible_at > now) {
      ++topic_stats.waiting.due;
      continue;
    }
    ++topic_stats.ready;
    if (!topic_stats.oldest_ready_at || eligible_at < *topic_stats.oldest_ready_at) {
      topic_stats.oldest_ready_at = eligible_at;
    }
  }
  return stats;
}

}  // namespace oncebox::memory
