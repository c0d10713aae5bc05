// What a claim takes, how it is handed out, and how it is acknowledged.

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "queue_table.hpp"

namespace oncebox::sqlite {

namespace {

constexpr int kBeforeEveryRank = -1'000;
constexpr int kAfterEveryRank = 1'000;

// A process that never settles what it claims must not fill the memory; what is forgotten here is
// found by its key.
constexpr std::size_t kMaxHandouts = 100'000;

}  // namespace

/// The ready rows of several topics with one rank, in the order of their eligible time. Each topic
/// is read in pieces, from the index alone, so that topics which contribute little cost little.
class QueueTable::LaneMerge {
 public:
  LaneMerge(QueueTable& table, std::int64_t rank, std::span<const std::int64_t> topics,
            std::size_t wanted, TimePoint now)
      : table_(table), rank_(rank), now_(now) {
    constexpr std::size_t kSmallestPiece = 16;
    piece_ = topics.size() == 1 ? wanted : std::max(kSmallestPiece, 2 * wanted / topics.size());
    for (const std::int64_t topic : topics) read_piece(topic, {});
  }

  /// The next best row; nothing when none is left.
  [[nodiscard]] std::optional<std::int64_t> next() {
    if (rows_.empty()) return std::nullopt;
    const Ready best = rows_.top();
    rows_.pop();
    if (best.last_of_piece) read_piece(best.topic, best);
    return best.id;
  }

 private:
  struct Ready {
    std::int64_t eligible_at = -1;
    std::int64_t enqueue_order = 0;
    std::int64_t id = 0;
    std::int64_t topic = 0;
    bool last_of_piece = false;

    friend bool operator>(const Ready& a, const Ready& b) noexcept {
      return std::tie(a.eligible_at, a.enqueue_order) > std::tie(b.eligible_at, b.enqueue_order);
    }
  };

  void read_piece(std::int64_t topic, const Ready& after) {
    Statement& read = table_.sql_.lane_rows;
    const ResetLater reset(read);
    read.bind(1, topic)
        .bind(2, rank_)
        .bind(3, now_)
        .bind(4, after.eligible_at)
        .bind(5, after.enqueue_order)
        .bind(6, piece_);
    std::size_t count = 0;
    while (read.step()) {
      ++count;
      rows_.push({.eligible_at = read.integer(0),
                  .enqueue_order = read.integer(1),
                  .id = read.integer(2),
                  .topic = topic,
                  .last_of_piece = count == piece_});
    }
  }

  QueueTable& table_;
  const std::int64_t rank_;
  const TimePoint now_;
  std::size_t piece_ = 0;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> rows_;
};

std::map<std::int64_t, std::vector<std::int64_t>> QueueTable::lanes_by_rank(
    const TopicSelection& topics) {
  std::map<std::int64_t, std::vector<std::int64_t>> lanes;
  std::int64_t topic = 0;
  std::int64_t rank = kBeforeEveryRank;
  for (;;) {
    Statement& next = sql_.next_lane;
    const ResetLater reset(next);
    if (!next.bind(1, topic).bind(2, rank).step()) return lanes;
    topic = next.integer(0);
    rank = next.integer(1);
    if (topics.matches(topics_.name_of(topic))) {
      lanes[rank].push_back(topic);
    } else {
      rank = kAfterEveryRank;
    }
  }
}

std::vector<std::int64_t> QueueTable::best_ready(std::size_t limit, const TopicSelection& topics,
                                                 TimePoint now) {
  std::vector<std::int64_t> best;
  for (const auto& [rank, lane_topics] : lanes_by_rank(topics)) {
    if (best.size() == limit) break;
    LaneMerge rows(*this, rank, lane_topics, limit - best.size(), now);
    while (best.size() < limit) {
      const std::optional<std::int64_t> id = rows.next();
      if (!id) break;
      best.push_back(*id);
    }
  }
  return best;
}

void QueueTable::lease(QueueRow& row, const OwnerToken& owner, TimePoint locked_until) {
  Counters& numbers = counters();
  numbers.changed = true;
  const DeliveryNumber delivery{static_cast<std::uint64_t>(++numbers.last_delivery)};
  hand_out(row.state, {.owner = owner, .delivery = delivery, .locked_until = locked_until});
  row.stage = Stage::leased;
  sql_.lease.bind(1, row.id)
      .bind_blob(2, bytes_of(owner.uuid()))
      .bind(3, numbers.last_delivery)
      .bind(4, locked_until)
      .run();
  remember(
      delivery,
      {.id = row.id, .topic = topic_number(row), .key_hash = std::hash<MessageKey>{}(row.key)});
}

void QueueTable::remember(DeliveryNumber delivery, const Handout& handout) {
  if (handouts_.size() >= kMaxHandouts) handouts_.clear();
  handouts_.insert_or_assign(static_cast<std::uint64_t>(delivery), handout);
}

// The index of all keys is large and its pages are cold; the number of a message that this process
// was given need not be looked up there.
bool QueueTable::acknowledge(const Delivery& delivery, TimePoint now) {
  if (!delivery.number) return false;
  const auto known = handouts_.find(static_cast<std::uint64_t>(*delivery.number));
  if (known == handouts_.end()) return false;
  const Handout handout = known->second;
  if (handout.key_hash != std::hash<MessageKey>{}(delivery.key)) return false;
  handouts_.erase(known);
  sql_.acknowledge.bind(1, handout.id)
      .bind_blob(2, bytes_of(delivery.owner.uuid()))
      .bind(3, static_cast<std::int64_t>(*delivery.number))
      .bind(4, now)
      .run();
  if (connection_.changes() != 1) return false;
  ++done_added_[handout.topic];
  return true;
}

}  // namespace oncebox::sqlite
