// What a claim takes, how it is handed out, and how it is acknowledged.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/sql/attempt_code.hpp"
#include "queue_table.hpp"

namespace oncebox::sqlite {

namespace {

// A process that never settles what it claims must not fill the memory; what is forgotten here is
// found by its key.
constexpr std::size_t kMaxHandouts = 100'000;

/// The deliveries by the ids of their messages, as JSON, of those handouts that are wanted; empty
/// when none is.
template <class Wanted>
std::string deliveries_of(std::span<const QueueTable::Handout> handouts, Wanted is_wanted) {
  std::string list;
  for (const QueueTable::Handout& handout : handouts) {
    if (!is_wanted(handout)) continue;
    fmt::format_to(std::back_inserter(list), "{}\"{}\":{}", list.empty() ? '{' : ',', handout.id,
                   handout.delivery);
  }
  if (!list.empty()) list += '}';
  return list;
}

}  // namespace

/// The ready rows of several lanes of one rank, in the order of their eligible time. What stands
/// behind the head of a lane is read in pieces, from the index alone, and only when the head was
/// taken; so topics which contribute little cost little.
class QueueTable::LaneMerge {
 public:
  LaneMerge(QueueTable& table, std::span<const LaneHead> lanes, std::size_t wanted, TimePoint now)
      : table_(table), rank_(lanes.front().rank), now_(now) {
    constexpr std::size_t kSmallestPiece = 16;
    piece_ = lanes.size() == 1 ? wanted : std::max(kSmallestPiece, 2 * wanted / lanes.size());
    std::vector<Ready> heads;
    heads.reserve(lanes.size());
    for (const LaneHead& head : lanes) {
      if (TimePoint{Duration{head.eligible_at}} > now) continue;
      heads.push_back({.eligible_at = head.eligible_at,
                       .enqueue_order = head.enqueue_order,
                       .id = head.id,
                       .topic = head.topic,
                       .last_of_piece = true});
    }
    rows_ = Rows(std::greater<>(), std::move(heads));
  }

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

  /// The next best row of a topic that is not closed; nothing when none is left.
  [[nodiscard]] std::optional<Ready> next() {
    if (const std::optional<Ready> last = std::exchange(last_of_piece_, std::nullopt)) {
      if (!closed_.contains(last->topic)) read_piece(*last);
    }
    while (!rows_.empty()) {
      const Ready best = rows_.top();
      rows_.pop();
      if (closed_.contains(best.topic)) continue;
      if (best.last_of_piece) last_of_piece_ = best;
      return best;
    }
    return std::nullopt;
  }

  /// No more of this topic is wanted.
  void close(std::int64_t topic) { closed_.insert(topic); }

 private:
  using Rows = std::priority_queue<Ready, std::vector<Ready>, std::greater<>>;

  void read_piece(const Ready& after) {
    Statement& read = table_.sql_.lane_rows;
    const ResetLater reset(read);
    read.bind(1, after.topic)
        .bind(2, rank_)
        .bind(3, now_)
        .bind(4, after.eligible_at)
        .bind(5, after.enqueue_order)
        .bind(6, piece_);
    std::size_t count = 0;
    while (read.step()) {
      ++count;
      rows_.push({.eligible_at = read.int64(0),
                  .enqueue_order = read.int64(1),
                  .id = read.int64(2),
                  .topic = after.topic,
                  .last_of_piece = count == piece_});
    }
  }

  QueueTable& table_;
  const std::int64_t rank_;
  const TimePoint now_;
  std::size_t piece_ = 0;
  Rows rows_;
  std::optional<Ready> last_of_piece_;  ///< what was answered last, if others stand behind it
  std::unordered_set<std::int64_t> closed_;
};

std::vector<std::int64_t> QueueTable::best_ids(const ClaimRequest& request,
                                               ClaimAllowance& allowance, TimePoint now) {
  std::vector<std::int64_t> best;
  best.reserve(request.limit);
  const auto may_take = [&](std::int64_t topic) {
    return !allowance.has_limits() || allowance.take(topics_.names().name_of(topic).str());
  };
  std::map<std::int64_t, std::vector<LaneHead>> by_rank;
  for (const LaneHead& head : lanes_.heads(topics_.names(), request.topics)) {
    by_rank[head.rank].push_back(head);
  }
  for (const auto& [rank, lanes] : by_rank) {
    LaneMerge rows(*this, lanes, request.limit - best.size(), now);
    while (best.size() < request.limit) {
      const std::optional<LaneMerge::Ready> ready = rows.next();
      if (!ready) break;
      if (may_take(ready->topic)) {
        best.push_back(ready->id);
      } else {
        rows.close(ready->topic);
      }
    }
    if (best.size() == request.limit) break;
  }
  return best;
}

std::vector<QueueRow> QueueTable::best_ready(const ClaimRequest& request, ClaimAllowance& allowance,
                                             TimePoint now) {
  const std::vector<std::int64_t> ids = best_ids(request, allowance, now);
  std::vector<QueueRow> rows;
  if (ids.empty()) return rows;
  rows.reserve(ids.size());
  const std::string list = fmt::format("[{}]", fmt::join(ids, ","));
  Statement& read = sql_.listed_rows;
  const ResetLater reset(read);
  read.bind(1, std::string_view(list));
  std::size_t bytes = 0;
  while (read.step()) {
    QueueRow row = read_row(read, topics_.names());
    bytes += sql::bytes_of(*row.content);
    if (bytes > request.max_bytes && !rows.empty()) break;
    rows.push_back(std::move(row));
  }
  return rows;
}

void QueueTable::count_leased(std::span<LimitUse> uses, const TopicPolicies& policies) {
  Statement& read = sql_.leased_topics;
  const ResetLater reset(read);
  while (read.step()) {
    oncebox::count_leased(uses, policies, topics_.names().name_of(read.int64(0)).str(),
                          static_cast<std::size_t>(read.int64(1)));
  }
}

void QueueTable::lease(std::span<QueueRow> rows, const ClaimRequest& request,
                       const WorkerName& worker, TimePoint now) {
  if (rows.empty()) return;
  const std::int64_t worker_id = worker_number(worker, now);
  workers_.was_given_work(worker);
  const TimePoint locked_until = now + request.lease;
  Counters& numbers = counters();
  numbers.changed = true;
  const std::int64_t first = numbers.last_delivery + 1;
  std::string list = "[";
  for (QueueRow& row : rows) {
    const DeliveryNumber delivery{static_cast<std::uint64_t>(++numbers.last_delivery)};
    hand_out(row.state,
             {.owner = request.owner, .delivery = delivery, .locked_until = locked_until});
    row.stage = Stage::leased;
    remember(row);
    fmt::format_to(std::back_inserter(list), "{}{}", list.size() > 1 ? "," : "", row.id);
  }
  list += "]";
  const ResetLater reset(sql_.lease);
  sql_.lease.bind(1, std::string_view(list))
      .bind_blob(2, bytes_of(request.owner.uuid()))
      .bind(3, first)
      .bind(4, locked_until)
      .bind(5, now)
      .bind(6, worker_id)
      .run();
}

std::int64_t QueueTable::worker_number(const WorkerName& name, TimePoint now) {
  if (const std::optional<std::int64_t> known = workers_.number_of(name, now)) return *known;
  const auto see = [&](Statement& statement) {
    const ResetLater reset(statement);
    if (!statement.bind(1, std::string_view(name.str())).bind(2, now).step()) return false;
    workers_.written(name, statement.int64(0), now);
    return true;
  };
  if (!see(sql_.see_worker) && !see(sql_.add_worker)) {
    throw Error(ErrorCode::internal, "a worker's row was not written");
  }
  return *workers_.number_of(name, now);
}

void QueueTable::forget_workers(TimePoint now) {
  sql_.forget_workers.bind(1, now - kWorkerRetention).run();
}

void QueueTable::remember(const QueueRow& row) {
  if (handouts_.size() >= kMaxHandouts) handouts_.clear();
  const auto delivery = static_cast<std::uint64_t>(row.state.lease->delivery);
  handouts_.insert_or_assign(
      delivery, Remembered{.handout = {.id = row.id,
                                       .topic = topics_.number_of(row.content->topic),
                                       .delivery = delivery,
                                       .may_have_attempts = may_have_attempts(row.state)},
                           .key_hash = std::hash<MessageKey>{}(row.key)});
}

// The index of all keys is large and its pages are cold; the id of a message that this process was
// given need not be looked up there.
std::optional<QueueTable::Handout> QueueTable::handout_of(const Delivery& delivery) const {
  if (!delivery.number) return std::nullopt;
  const auto known = handouts_.find(static_cast<std::uint64_t>(*delivery.number));
  if (known == handouts_.end()) return std::nullopt;
  if (known->second.key_hash != std::hash<MessageKey>{}(delivery.key)) return std::nullopt;
  return known->second.handout;
}

TimePoint QueueTable::newest() {
  const std::string sql =
      fmt::format("SELECT first_seen_at FROM oncebox_{}_message ORDER BY id DESC LIMIT 1", queue_);
  return TimePoint{Duration{connection_.query_integer(sql.c_str())}};
}

// Each statement goes by the partial index of its stage, past everything that is done.
void QueueTable::mend_times(TimePoint now) {
  for (const Stage stage : {Stage::exposed, Stage::blocked, Stage::leased}) {
    connection_
        .prepare(fmt::format(R"sql(
UPDATE oncebox_{}_state SET eligible_at = max(ifnull(due_at, 0), backoff_until, ?1)
WHERE stage = {} AND eligible_at > max(ifnull(due_at, 0), backoff_until, ?1))sql",
                             queue_, static_cast<int>(stage)))
        .bind(1, now)
        .run();
  }
  connection_
      .prepare(fmt::format(R"sql(
UPDATE oncebox_{}_state SET locked_until = locked_until - (leased_at - ?1), leased_at = ?1
WHERE stage = {} AND leased_at > ?1)sql",
                           queue_, static_cast<int>(Stage::leased)))
      .bind(1, now)
      .run();
}

std::unordered_set<std::int64_t> QueueTable::acknowledge(std::span<const Handout> handouts,
                                                         const OwnerToken& owner, TimePoint now) {
  const auto may_have = [](const Handout& handout) { return handout.may_have_attempts; };
  std::unordered_set<std::int64_t> acknowledged;
  acknowledged.reserve(handouts.size());
  const auto acknowledge_by = [&](Statement& statement, const std::string& deliveries) {
    if (deliveries.empty()) return;
    const ResetLater reset(statement);
    statement.bind(1, std::string_view(deliveries))
        .bind_blob(2, bytes_of(owner.uuid()))
        .bind(3, now);
    while (statement.step()) acknowledged.insert(statement.int64(0));
  };
  acknowledge_by(sql_.acknowledge_untried, deliveries_of(handouts, std::not_fn(may_have)));
  acknowledge_by(sql_.acknowledge_tried, deliveries_of(handouts, may_have));

  std::vector<std::int64_t> done_after_others;
  for (const Handout& handout : handouts) {
    handouts_.erase(handout.delivery);
    if (!acknowledged.contains(handout.id)) continue;
    ++done_added_[handout.topic];
    if (handout.may_have_attempts) done_after_others.push_back(handout.id);
  }
  add_successes(done_after_others);
  return acknowledged;
}

void QueueTable::add_successes(std::span<const std::int64_t> done) {
  if (done.empty()) return;
  const std::string list = fmt::format("[{}]", fmt::join(done, ","));
  Statement& add = sql_.add_successes;
  const ResetLater reset(add);
  add.bind(1, std::string_view(list)).bind(2, sql::attempt_code(AttemptOutcome::succeeded));
  // The first step has added all of them.
  while (add.step()) drop_old_attempts(add.int64(0), add.int64(1));
}

}  // namespace oncebox::sqlite
