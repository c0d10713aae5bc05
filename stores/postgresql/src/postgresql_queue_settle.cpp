#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "arrivals.hpp"
#include "handler_transaction.hpp"
#include "oncebox/error.hpp"
#include "postgresql_queue.hpp"

namespace oncebox::postgresql {

namespace {

/// Those acknowledgements of one call that are about messages of one run.
struct RunAcknowledgement {
  HeldRun run;
  std::vector<std::int64_t> ids;  ///< sorted

  [[nodiscard]] std::vector<IdRange> done() const {
    std::vector<IdRange> ranges;
    for (const std::int64_t id : ids) {
      if (!ranges.empty() && ranges.back().last + 1 == id) {
        ranges.back().last = id;
      } else {
        ranges.push_back({id, id});
      }
    }
    return ranges;
  }

  /// What stays leased.
  [[nodiscard]] std::vector<HeldRun> rest() const {
    std::vector<HeldRun> parts;
    std::int64_t next = run.first_id;
    for (const IdRange& range : done()) {
      if (next < range.first) parts.push_back(run.part(next, range.first - 1));
      next = range.last + 1;
    }
    if (next <= run.last_id) parts.push_back(run.part(next, run.last_id));
    return parts;
  }
};

using RunAcknowledgements = std::map<std::int64_t, RunAcknowledgement>;  // by the run's first id

Parameters to_parameters(const RunAcknowledgements& acknowledgements, const OwnerToken& owner,
                         const std::optional<TimePoint>& now) {
  RowArrays held(kHeldRunColumns);
  RowArrays rest(kLeasedRangeColumns);
  RowArrays done(kDoneRangeColumns);
  for (const auto& [first_id, acknowledgement] : acknowledgements) {
    const HeldRun& run = acknowledgement.run;
    held.put(run.first_id).put(run.last_id).put(run.delivery);
    for (const HeldRun& part : acknowledgement.rest()) {
      rest.put(part.first_id)
          .put(part.last_id)
          .put(part.delivery)
          .put(part.seen_at)
          .put(part.locked_until)
          .put(static_cast<std::int16_t>(part.priority))
          .put(std::string_view(part.topic))
          .put(part.leased_at)
          .put(part.worker);
    }
    for (const IdRange& range : acknowledgement.done()) {
      done.put(range.first).put(range.last).put(run.seen_at).put(std::string_view(run.topic));
    }
  }
  Parameters parameters = held.take();
  rest.move_to(parameters);
  done.move_to(parameters);
  parameters.add(owner.uuid().bytes()).add(now);
  return parameters;
}

}  // namespace

/// One call of settle. Acknowledgements of messages that this process was given go by their
/// numbers, by runs where they were claimed in runs, in one statement each; everything else is
/// looked at.
class PostgresqlQueue::Settling {
 public:
  Settling(PostgresqlQueue& queue, std::span<const Settlement> settlements)
      : queue_(queue),
        settlements_(settlements),
        handouts_(settlements.size()),
        outcomes_(settlements.size()) {
    std::unordered_map<MessageKey, int> occurrences;
    for (const Settlement& settlement : settlements) ++occurrences[settlement.delivery.key];
    for (std::size_t i = 0; i < settlements.size(); ++i) {
      handouts_[i] = queue.handouts_.find(settlements[i].delivery);
      const bool is_plain = std::holds_alternative<Ack>(settlements[i].verdict) && handouts_[i] &&
                            !handouts_[i]->partition &&
                            settlements[i].delivery.owner == settlements[0].delivery.owner &&
                            occurrences[settlements[i].delivery.key] == 1;
      if (!is_plain) {
        others_.push_back(i);
      } else if (join_run(i)) {
        in_runs_.push_back(i);
      } else {
        plain_.push_back(i);
      }
      if (handouts_[i] && handouts_[i]->partition) partitions_.insert(*handouts_[i]->partition);
    }
    for (auto& [first_id, acknowledgement] : runs_) {
      std::sort(acknowledgement.ids.begin(), acknowledgement.ids.end());
    }
    // Sorted, so that two calls do not wait for each other.
    std::sort(plain_.begin(), plain_.end(),
              [&](std::size_t a, std::size_t b) { return handouts_[a]->id < handouts_[b]->id; });
  }

  std::vector<SettleOutcome> run() {
    const bool only_runs = !runs_.empty() && plain_.empty() && others_.empty();
    if (only_runs && acknowledge_runs_alone()) return outcomes_;
    if (only_runs) leave_runs();
    if (settlements_.size() == 1 && plain_.size() == 1 && acknowledge_alone()) return outcomes_;
    for (;;) {
      try {
        settle_all();
        return outcomes_;
      } catch (const OtherDelivery&) {
        others_.insert(others_.end(), plain_.begin(), plain_.end());
        plain_.clear();
      } catch (const RunsNotHeld&) {
        leave_runs();
      }
    }
  }

  /// Settles in a transaction that the caller commits. After the commit the caller calls
  /// `committed`; when this throws, the caller rolls back.
  std::vector<SettleOutcome> run_in(Transaction& transaction) {
    RowBatch rows(transaction, queue_.sql_, queue_.parts_.names, queue_.name_, queue_.test_time());
    try {
      rows.lock_partitions(partitions_);
      settle_in(rows, transaction);
    } catch (const OtherDelivery&) {
      return lost();
    } catch (const RunsNotHeld&) {
      leave_runs();
      return lost();
    } catch (const PartitionsNotLocked&) {
      return lost();  // we have forgotten what we were given
    }
    rows.write(std::nullopt);
    for (const std::size_t i : in_runs_) outcomes_[i] = {};
    return outcomes_;
  }
  void committed() {
    note_runs();
    // What was looked at has left its run.
    for (const std::size_t i : others_) queue_.leave_run(settlements_[i].delivery);
  }

  /// Whether something other than plain acknowledgements happened.
  [[nodiscard]] bool may_be_claimable() const noexcept { return may_be_claimable_; }

 private:
  /// A message was held, but by a later delivery to the same owner.
  struct OtherDelivery {};
  /// Somebody has taken messages out of the runs, or the leases are lost.
  struct RunsNotHeld {};

  // Whether the message belongs to a run that this process holds.
  bool join_run(std::size_t place) {
    const std::int64_t id = handouts_[place]->id;
    const auto is_delivery_of = [&](const HeldRun& run) {
      return id <= run.last_id && run.delivery + (id - run.first_id) == delivery_number(place);
    };
    auto found = runs_.upper_bound(id);
    if (found != runs_.begin() && is_delivery_of(std::prev(found)->second.run)) {
      found = std::prev(found);
    } else {
      std::optional<HeldRun> run = queue_.handouts_.run_of(id);
      if (!run || !is_delivery_of(*run) || runs_.contains(run->first_id)) return false;
      const std::int64_t first_id = run->first_id;
      found = runs_.emplace(first_id, RunAcknowledgement{std::move(*run), {}}).first;
    }
    found->second.ids.push_back(id);
    return true;
  }

  // False when the runs were not held as we believed; then nothing has changed.
  bool acknowledge_runs_alone() {
    const Result released = run_alone(queue_.parts_.pool, queue_.sql_.runs.acknowledge,
                                      run_parameters(), Exchange::commits);
    if (released.int64(0, 0) == 0) return false;
    note_runs();
    return true;
  }

  void acknowledge_runs(Transaction& transaction) {
    const Parameters to_lock = runs_to_lock();
    const Parameters parameters = run_parameters();
    const std::array commands{Command{&queue_.sql_.runs.lock, &to_lock},
                              Command{&queue_.sql_.runs.acknowledge, &parameters}};
    if (transaction.run_all(commands).back().int64(0, 0) == 0) throw RunsNotHeld{};
  }

  // Also those from which messages will be taken out afterwards: two calls that lock them in two
  // steps would wait for each other.
  [[nodiscard]] Parameters runs_to_lock() const {
    std::set<std::int64_t> first_ids;
    for (const auto& [first_id, acknowledgement] : runs_) first_ids.insert(first_id);
    for (const std::size_t i : others_) {
      if (!handouts_[i]) continue;
      const std::optional<HeldRun> run = queue_.handouts_.run_of(handouts_[i]->id);
      if (run) first_ids.insert(run->first_id);
    }
    ArrayValue array(SqlType::bigint);
    for (const std::int64_t first_id : first_ids) array.add(first_id);
    return Parameters().add(std::move(array));
  }

  [[nodiscard]] Parameters run_parameters() const {
    return to_parameters(runs_, settlements_[0].delivery.owner, queue_.test_time());
  }

  void note_runs() {
    for (const auto& [first_id, acknowledgement] : runs_) {
      queue_.handouts_.replace_run(acknowledgement.run, acknowledgement.rest());
    }
    for (const std::size_t i : in_runs_) outcomes_[i] = {};
  }

  // From now on each of them is looked at, which takes it out of its run.
  void leave_runs() {
    for (const std::size_t i : in_runs_) queue_.leave_run(settlements_[i].delivery);
    runs_.clear();
    others_.insert(others_.end(), in_runs_.begin(), in_runs_.end());
    in_runs_.clear();
  }

  void settle_all() {
    queue_.in_rows(partitions_, [&](RowBatch& rows, Transaction& transaction) {
      settle_in(rows, transaction);
      queue_.commit(rows, may_be_claimable_);
      return may_be_claimable_;
    });
    committed();
  }

  void settle_in(RowBatch& rows, Transaction& transaction) {
    if (!runs_.empty()) acknowledge_runs(transaction);
    std::vector<std::size_t> rest = others_;
    if (!plain_.empty()) {
      acknowledge(transaction.run(plain_statement(), plain_parameters()), rest);
    }
    std::sort(rest.begin(), rest.end());
    if (rest.empty()) return;
    // Only a failure needs the newest ones.
    rules_ = queue_.policies_.known();
    if (!rules_ || std::ranges::any_of(settlements_, &fails)) {
      rules_ = queue_.policies_.read(transaction);
    }
    settle_each(rows, rest);
  }

  [[nodiscard]] static bool fails(const Settlement& settlement) noexcept {
    return std::holds_alternative<Abandon>(settlement.verdict);
  }

  [[nodiscard]] std::vector<SettleOutcome> lost() const {
    return std::vector<SettleOutcome>(settlements_.size(), {SettleStatus::lease_lost});
  }

  [[nodiscard]] std::int64_t delivery_number(std::size_t place) const {
    return static_cast<std::int64_t>(*settlements_[place].delivery.number);
  }

  [[nodiscard]] const Statement& plain_statement() const {
    const bool was_tried = std::ranges::any_of(
        plain_, [this](std::size_t place) { return handouts_[place]->may_have_attempts; });
    return was_tried ? queue_.sql_.acknowledge_tried : queue_.sql_.acknowledge;
  }

  Parameters plain_parameters() const {
    ArrayValue ids(SqlType::bigint);
    std::int64_t least = delivery_number(plain_.front());
    std::int64_t greatest = least;
    for (const std::size_t i : plain_) {
      ids.add(handouts_[i]->id);
      least = std::min(least, delivery_number(i));
      greatest = std::max(greatest, delivery_number(i));
    }
    Parameters parameters;
    parameters.add(std::move(ids)).add(settlements_[0].delivery.owner.uuid().bytes());
    parameters.add(least).add(greatest).add(queue_.test_time());
    return parameters;
  }

  bool acknowledge_alone() {
    const Result acknowledged =
        run_alone(queue_.parts_.pool, plain_statement(), plain_parameters(), Exchange::commits);
    outcomes_.front() = {};
    return !acknowledged.empty();
  }

  // Adds to `rest` what was not to be acknowledged just like that.
  void acknowledge(const Result& acknowledged, std::vector<std::size_t>& rest) {
    std::unordered_map<std::int64_t, std::int64_t> deliveries;
    for (int row = 0; row < acknowledged.rows(); ++row) {
      deliveries.emplace(acknowledged.int64(row, 0), acknowledged.int64(row, 1));
    }
    for (const std::size_t i : plain_) {
      outcomes_[i] = {};
      const auto found = deliveries.find(handouts_[i]->id);
      if (found == deliveries.end()) {
        rest.push_back(i);
      } else if (found->second != delivery_number(i)) {
        throw OtherDelivery{};
      }
    }
  }

  void settle_each(RowBatch& rows, const std::vector<std::size_t>& places) {
    std::vector<MessageKey> keys;
    for (const std::size_t i : places) keys.push_back(settlements_[i].delivery.key);
    rows.load(keys, RowBatch::NewRows::none);
    may_be_claimable_ = false;
    for (const std::size_t i : places) {
      const Settlement& settlement = settlements_[i];
      RowBatch::Row* const row = rows.find(settlement.delivery.key);
      if (row == nullptr || !is_held_by(row->state, settlement.delivery)) {
        outcomes_[i] = {SettleStatus::lease_lost};
        continue;
      }
      row->ended_attempt = ended_attempt(row->state, settlement.verdict, rows.now());
      const ResolvedPolicy& policy = rules_->policies.for_topic(row->content->topic.str());
      outcomes_[i] = apply_verdict(row->state, settlement.verdict, error_text(settlement.verdict),
                                   policy, rows.now());
      RowBatch::save(*row);
      may_be_claimable_ = true;
    }
  }

  PostgresqlQueue& queue_;
  const std::span<const Settlement> settlements_;
  std::vector<std::optional<Handouts::Handout>> handouts_;
  std::vector<SettleOutcome> outcomes_;
  // Each settlement is in one of these.
  std::vector<std::size_t> in_runs_;
  std::vector<std::size_t> plain_;
  std::vector<std::size_t> others_;
  RunAcknowledgements runs_;
  std::set<std::string> partitions_;
  KnownPolicies::Snapshot rules_;
  bool may_be_claimable_ = false;
};

std::vector<SettleOutcome> PostgresqlQueue::do_settle(std::span<const Settlement> settlements) {
  Settling settling(*this, settlements);
  std::vector<SettleOutcome> outcomes = settling.run();
  handouts_.forget(settlements);
  if (makes_room()) {
    announce_committed();
  } else if (settling.may_be_claimable()) {
    listeners_.notify();
  }
  return outcomes;
}

bool PostgresqlQueue::makes_room() const {
  const KnownPolicies::Snapshot rules = policies_.known();
  return rules && rules->policies.limits_concurrency();
}

// Handlers that run at the same time acknowledge the messages of one claim one by one. In a shared
// row each would wait for the commit of the one before.
void PostgresqlQueue::split_run_of(const Delivery& delivery) {
  const std::optional<Handouts::Handout> handout = handouts_.find(delivery);
  if (!handout) return;
  const detail::Lock lock(splitting_);
  const std::optional<HeldRun> run = handouts_.run_of(handout->id);
  if (!run || run->first_id == run->last_id) return;
  const Parameters values = Parameters().add(run->first_id).add(delivery.owner.uuid().bytes());
  run_alone(parts_.pool, sql_.runs.split, values, Exchange::changes_nothing);
  handouts_.replace_run(*run, {});
}

std::vector<EnqueueOutcome> PostgresqlQueue::enqueue_in(Transaction& transaction,
                                                        std::span<const Message> messages,
                                                        const EnqueueOptions& options) {
  require_payload_sizes(messages);
  RowBatch rows(transaction, sql_, parts_.names, name_, test_time());
  const Arrivals arrivals(messages, test_time());
  std::vector<EnqueueOutcome> outcomes = take_in_joined(arrivals, rows, transaction, sql_, options);
  rows.write(std::nullopt);
  return outcomes;
}

void PostgresqlQueue::announce_committed() {
  listeners_.notify();
  announcer_.soon();
}

SettleOutcome PostgresqlQueue::acknowledge_with(const Delivery& delivery, const Work& work) {
  const Settlement settlement{delivery, Ack{}};
  std::set<PostgresqlQueue*> brought_work;
  const auto enqueue = [&](QueueKind kind, std::span<const Message> messages,
                           const EnqueueOptions& options, Transaction& transaction) {
    PostgresqlQueue& queue = kind == kind_ ? *this : sibling_(kind);
    std::vector<EnqueueOutcome> outcomes = queue.enqueue_in(transaction, messages, options);
    if (std::any_of(outcomes.begin(), outcomes.end(), brings_work)) brought_work.insert(&queue);
    return outcomes;
  };
  split_run_of(delivery);
  const SettleOutcome outcome = repeating([&] {
    brought_work.clear();
    const ConnectionPool::Lease connection = parts_.pool.acquire(parts_.pool.deadline());
    HandlerTransaction transaction(*connection, parts_.pool, enqueue);
    transaction.run(work);
    Settling settling(*this, {&settlement, 1});
    const SettleOutcome settled = settling.run_in(transaction.own()).front();
    if (settled != SettleStatus::settled) return settled;
    transaction.commit();
    settling.committed();
    if (settling.may_be_claimable() || makes_room()) brought_work.insert(this);
    return settled;
  });
  if (outcome != SettleStatus::settled) return outcome;
  handouts_.forget({&settlement, 1});
  for (PostgresqlQueue* queue : brought_work) queue->announce_committed();
  return outcome;
}

}  // namespace oncebox::postgresql
