#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "oncebox/driver/answer_room.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "queue_report.hpp"
#include "sqlite_queue.hpp"

namespace oncebox::sqlite {

SqliteQueue::SqliteQueue(const StoreParts& parts, QueueKind kind, const Options& options)
    : parts_(parts),
      kind_(kind),
      name_(to_string(kind)),
      max_payload_bytes_(options.max_payload_bytes),
      table_(
          parts.connection, name_, parts.topics,
          {.keys_per_segment = options.keys_per_segment, .kept_attempts = options.kept_attempts}),
      watch_(table_.newest()) {
  table_.load_keys();
}

void SqliteQueue::on_ending(Writer::Ending ending) noexcept {
  if (ending == Writer::Ending::committed) {
    table_.committed();
    if (mended_at_) watch_.mended(*mended_at_);
  } else {
    table_.rolled_back();
  }
  mended_at_.reset();
  if (std::exchange(rests_, false)) parts_.connection.release_memory();
}

TimePoint SqliteQueue::read_clock() {
  const TimePoint now = parts_.clock.now();
  if (watch_.went_back(now) && !mended_at_) {
    table_.mend_times(now);
    mended_at_ = now;
  }
  return now;
}

std::vector<MarkOutcome> SqliteQueue::do_mark(std::span<const Mark> marks) {
  auto outcomes = write(Flush::required, [&](TimePoint now) {
    std::vector<MarkOutcome> answers;
    answers.reserve(marks.size());
    for (const Mark& mark : marks) {
      std::optional<QueueRow> row = table_.find(mark.key);
      if (!row) {
        answers.push_back(MarkOutcome::unknown);
        continue;
      }
      std::string error = error_text(mark.error);
      const std::optional<Attempt> ended = marked_attempt(row->state, mark.as, error, now);
      answers.push_back(apply_mark(row->state, mark.as, std::move(error), now));
      if (answers.back() != MarkOutcome::refused) save(*row, ended);
    }
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

ClaimResult SqliteQueue::do_claim(const ClaimRequest& request) {
  ClaimResult answer;
  try {
    while (claim_step(request, answer)) {
    }
  } catch (const std::exception&) {
    const bool has_changed_nothing = answer.empty() && answer.reaped.total() == 0;
    if (has_changed_nothing) throw;  // else what was buried before is told
  }
  return answer;
}

// A large backlog is reaped in steps that let others in between; what is left belongs to the claim.
bool SqliteQueue::claim_step(const ClaimRequest& request, ClaimResult& answer) {
  constexpr std::size_t kReapStep = 1'000;
  bool is_backlog = false;
  ClaimResult claimed = write(Flush::may_wait, [&](TimePoint now) -> ClaimResult {
    ReapResult reaped = reap_some(kReapStep, now);
    is_backlog = reaped.total() == kReapStep;
    if (is_backlog) return {.reaped = std::move(reaped)};
    table_.settle_partitions();
    return {claim_ready(request, now), std::move(reaped)};
  });
  answer.messages = std::move(claimed.messages);
  answer.reaped.add(std::move(claimed.reaped));
  return is_backlog;
}

std::vector<ClaimedMessage> SqliteQueue::claim_ready(const ClaimRequest& request, TimePoint now) {
  const TopicPolicies& policies = parts_.policies.current(kind_);
  ClaimAllowance allowance = allowance_at(now, policies);
  std::optional<TopicSelection> topics = allowance.among(request.topics);
  if (!topics) {
    table_.note_idle(worker_of(request), now);
    return {};
  }
  ClaimRequest allowed = request;
  allowed.topics = std::move(*topics);
  ClaimAllowance choice = allowance;
  std::vector<QueueRow> rows = table_.best_ready(allowed, choice, now);
  for (const QueueRow& row : rows) (void)allowance.take(row.content->topic.str());
  if (!rows.empty()) parts_.policies.note_spent(kind_, allowance.uses());
  const WorkerName worker = worker_of(request);
  if (rows.empty()) table_.note_idle(worker, now);
  table_.lease(rows, request, worker, now);
  std::vector<ClaimedMessage> claimed;
  claimed.reserve(rows.size());
  for (QueueRow& row : rows) claimed.push_back(sql::take_claimed(row));
  tell_attempt_limits(claimed, policies);
  if (claimed.empty()) on_nothing_to_do();
  return claimed;
}

ClaimAllowance SqliteQueue::allowance_at(TimePoint now, const TopicPolicies& policies) {
  std::vector<LimitUse> uses = parts_.policies.spent(kind_);
  if (policies.limits_concurrency()) table_.count_leased(uses, policies);
  return {policies, std::move(uses), now};
}

// When nothing was written since the last time, nobody misses the pages for a while.
void SqliteQueue::on_nothing_to_do() {
  const std::int64_t changes = sqlite3_total_changes64(parts_.connection.handle());
  rests_ = std::exchange(changes_when_idle_, changes) == changes;
}

/// Settles one after the other, but gathers plain acknowledgements that stand next to each other
/// into one statement.
class SqliteQueue::Settling {
 public:
  Settling(SqliteQueue& queue, TimePoint now, std::size_t items) : queue_(queue), now_(now) {
    outcomes_.reserve(items);
  }

  void settle(const Settlement& settlement) {
    if (gather(settlement)) return;
    acknowledge_gathered();
    settle_alone(settlement);
  }

  std::vector<SettleOutcome> finish() {
    acknowledge_gathered();
    return std::move(outcomes_);
  }

  /// Whether something other than plain acknowledgements happened.
  [[nodiscard]] bool may_be_claimable() const noexcept { return may_be_claimable_; }

 private:
  // Only a known delivery of the same owner, of a message that is not among the gathered ones.
  bool gather(const Settlement& settlement) {
    if (!std::holds_alternative<Ack>(settlement.verdict)) return false;
    const std::optional<QueueTable::Handout> handout =
        queue_.table_.handout_of(settlement.delivery);
    if (!handout) return false;
    const OwnerToken& owner = settlement.delivery.owner;
    if (!gathered_.empty() && gathered_.front()->delivery.owner != owner) return false;
    if (!ids_.insert(handout->id).second) return false;
    gathered_.push_back(&settlement);
    handouts_.push_back(*handout);
    return true;
  }

  void acknowledge_gathered() {
    if (gathered_.empty()) return;
    const auto acknowledged =
        queue_.table_.acknowledge(handouts_, gathered_.front()->delivery.owner, now_);
    for (std::size_t i = 0; i < gathered_.size(); ++i) {
      if (acknowledged.contains(handouts_[i].id)) {
        outcomes_.emplace_back();
      } else {
        settle_alone(*gathered_[i]);
      }
    }
    gathered_.clear();
    handouts_.clear();
    ids_.clear();
  }

  void settle_alone(const Settlement& settlement) {
    outcomes_.push_back(queue_.settle_one(settlement, now_));
    if (outcomes_.back() != SettleStatus::lease_lost) may_be_claimable_ = true;
  }

  SqliteQueue& queue_;
  const TimePoint now_;
  std::vector<SettleOutcome> outcomes_;
  std::vector<const Settlement*> gathered_;
  std::vector<QueueTable::Handout> handouts_;
  std::unordered_set<std::int64_t> ids_;
  bool may_be_claimable_ = false;
};

std::vector<SettleOutcome> SqliteQueue::settle_in_order(std::span<const Settlement> settlements,
                                                        TimePoint now, bool& may_be_claimable) {
  Settling settling(*this, now, settlements.size());
  for (const Settlement& settlement : settlements) settling.settle(settlement);
  std::vector<SettleOutcome> outcomes = settling.finish();
  may_be_claimable =
      settling.may_be_claimable() || parts_.policies.current(kind_).limits_concurrency();
  return outcomes;
}

std::vector<SettleOutcome> SqliteQueue::do_settle(std::span<const Settlement> settlements) {
  bool may_be_claimable = false;
  auto outcomes = write(Flush::required, [&](TimePoint now) {
    return settle_in_order(settlements, now, may_be_claimable);
  });
  if (may_be_claimable) listeners_.notify();
  return outcomes;
}

SettleOutcome SqliteQueue::settle_one(const Settlement& settlement, TimePoint now) {
  std::optional<QueueRow> row = table_.find(settlement.delivery.key);
  if (!row || !is_held_by(row->state, settlement.delivery)) return {SettleStatus::lease_lost};
  const std::optional<Attempt> ended = ended_attempt(row->state, settlement.verdict, now);
  const SettleOutcome outcome = apply_verdict(row->state, settlement.verdict,
                                              error_text(settlement.verdict), policy_of(*row), now);
  save(*row, ended);
  return outcome;
}

void SqliteQueue::save(QueueRow& row, const std::optional<Attempt>& ended) {
  table_.save(row);
  if (ended && may_have_attempts(row.state)) table_.keep(row, *ended);
}

std::vector<ExtendOutcome> SqliteQueue::do_extend(std::span<const LeaseExtension> extensions) {
  // As with a claim: a lost extension only ends a lease early.
  return write(Flush::may_wait, [&](TimePoint now) {
    std::vector<ExtendOutcome> outcomes;
    outcomes.reserve(extensions.size());
    for (const LeaseExtension& extension : extensions) {
      ExtendOutcome& outcome = outcomes.emplace_back();
      std::optional<QueueRow> row = table_.find(extension.delivery.key);
      if (!row || !is_held_by(row->state, extension.delivery)) continue;
      TimePoint& locked_until = row->state.lease->locked_until;
      locked_until = std::max(locked_until, now + extension.lease);
      outcome.locked_until = locked_until;
      table_.save(*row);
    }
    return outcomes;
  });
}

const ResolvedPolicy& SqliteQueue::policy_of(const QueueRow& row) {
  return parts_.policies.current(kind_).for_topic(row.content->topic.str());
}

ReapResult SqliteQueue::reap_some(std::size_t limit, TimePoint now) {
  ReapResult result;
  for (const std::int64_t id : table_.lapsed(now, limit)) {
    QueueRow row = table_.get(id);
    if (const auto ended = lapsed_attempt(row.state)) table_.keep(row, *ended);
    if (std::optional<std::string> cause = cause_of_death(row.state, policy_of(row), now)) {
      result.add({row.key, row.content->topic, *cause});
      bury(row.state, std::move(*cause), now);
    } else {
      lapse(row.state);
      ++result.released;
    }
    table_.save(row);
  }
  if (result.total() == limit) return result;
  for (const std::int64_t id : table_.expired(now, limit - result.total())) {
    QueueRow row = table_.get(id);
    bury(row.state, "expired", now);
    table_.save(row);
    result.add({row.key, row.content->topic, "expired"});
  }
  return result;
}

ReapResult SqliteQueue::do_reap(const ReapRequest& request) {
  ReapResult result = write(Flush::required, [&](TimePoint now) {
    ReapResult reaped = reap_some(request.limit, now);
    if (reaped.total() == 0) on_nothing_to_do();
    return reaped;
  });
  if (result.total() > 0) listeners_.notify();
  return result;
}

std::optional<TimePoint> SqliteQueue::do_next_due(const TopicSelection& topics) {
  const TimePoint now = parts_.clock.now();
  return parts_.own_reader.run([&](Connection& reader) {
    const StoredRules rules(reader, kind_);
    const ClaimAllowance allowance(rules.policies, rules.spent, now);
    return allowance.next_due(topics, read_next_due(reader, name_, topics, now));
  });
}

void SqliteQueue::do_listen(std::weak_ptr<WorkListener> listener) {
  listeners_.add(std::move(listener));
  if (start_watching_) start_watching_();
}

std::vector<std::optional<MessageRecord>> SqliteQueue::do_find(std::span<const MessageKey> keys,
                                                               const FindOptions& options) {
  const std::vector<TopicPattern> paused = paused_topics();
  const TimePoint now = parts_.clock.now();
  return parts_.readers.run([&](Connection& reader) {
    Statement find = reader.prepare(select_rows(
        name_, options.payloads, fmt::format("WHERE m.id IN ({})", ids_of_key(name_, "?1"))));
    Statement attempts = reader.prepare(select_attempts(name_));
    TopicNames topics(reader);
    std::vector<std::optional<MessageRecord>> records;
    records.reserve(keys.size());
    AnswerRoom room(options.max_bytes);
    for (const MessageKey& key : keys) {
      std::optional<MessageRecord> record;
      const sql::StorageKey storage_key = sql::storage_key(key);
      const ResetLater reset(find);
      if (find.bind_blob(1, storage_key).step()) {
        const QueueRow row = read_row(find, topics);
        if (row.key == key) {
          record = to_record(row, paused, now);
          const bool has_attempts =
              options.payloads == ListPayloads::include && may_have_attempts(row.state);
          if (has_attempts) record->attempts = read_attempts(attempts, row.id);
        }
      }
      if (record && !room.take(bytes_of(*record))) break;
      records.push_back(std::move(record));
    }
    return records;
  });
}

}  // namespace oncebox::sqlite
