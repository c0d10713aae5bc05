#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "memory_queue.hpp"
#include "oncebox/driver/answer_room.hpp"

namespace oncebox::memory {

namespace {

Message to_message(const Row& row, ListPayloads payloads) {
  const Content& content = *row.content;
  const RowState& state = row.state;
  return {.key = row.key,
          .topic = content.topic,
          .payload = payloads == ListPayloads::include ? content.payload : Payload(),
          .headers = content.headers,
          .hash = state.hash,
          .priority = state.priority,
          .partition_key = state.partition_key,
          .due_at = state.due_at,
          .expires_at = state.expires_at};
}

// Drops the rows from the first one on that would make the answer too large, but never all.
void keep_within(std::vector<Row*>& rows, std::size_t max_bytes) {
  std::size_t bytes = 0;
  const auto too_many = [&](const Row* row) {
    bytes += row->content->payload.size() + bytes_of(row->content->headers);
    return bytes > max_bytes;
  };
  const auto first_left = std::find_if(rows.begin(), rows.end(), too_many);
  if (!rows.empty()) rows.erase(std::max(first_left, rows.begin() + 1), rows.end());
}

}  // namespace

ShownState MemoryQueue::shown_state_of(const Row& row, TimePoint now) const {
  const ShownState shown = row.shown_at(now);
  const bool can_be_paused = shown.state == State::ready;
  if (!can_be_paused || !is_paused(policies_.paused(), *row.state.lane->topic)) return shown;
  return while_paused(shown);
}

MessageRecord MemoryQueue::to_record(const Row& row, ListPayloads payloads, TimePoint now) const {
  const RowState& state = row.state;
  const ShownState shown = shown_state_of(row, now);
  MessageRecord record{.key = row.key,
                       .status = state.status,
                       .state = shown.state,
                       .waiting_for = shown.waiting_for,
                       .message = std::nullopt,
                       .hash = state.hash,
                       .history = state.history,
                       .lease = state.lease,
                       .eligible_at = std::nullopt,
                       .finished_at = state.finished_at,
                       .revivals = state.revivals,
                       .attempts = {}};
  if (record.lease) record.lease->worker = *state.worker->name;
  if (row.content == nullptr) return record;
  record.message = to_message(row, payloads);
  const bool unleased = state.status == Status::processing && !state.lease;
  if (unleased) record.eligible_at = state.eligible_at;
  return record;
}

TimePoint MemoryQueue::read_clock() {
  handlers_.require_none_here();
  return read_clock_in_transaction();
}

TimePoint MemoryQueue::read_clock_in_transaction() {
  const TimePoint now = clock_.now();
  if (!watch_.went_back(now)) return now;
  for (Row& row : rows_.index.rows_by_id()) {
    if (row.state.status != Status::processing) continue;
    rows_.index.edit(row, now, [&]() noexcept { (void)mend_times(row.state, now); });
  }
  watch_.mended(now);
  return now;
}

std::vector<MarkOutcome> MemoryQueue::do_mark(std::span<const Mark> marks) {
  std::vector<PreparedEnd> prepared;
  prepared.reserve(marks.size());
  std::vector<MarkOutcome> outcomes;
  outcomes.reserve(marks.size());

  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    for (const Mark& mark : marks) prepared.push_back(prepare(mark, now));
    for (std::size_t i = 0; i < marks.size(); ++i) {
      outcomes.push_back(mark_one(std::move(prepared[i]), marks[i].as, now));
    }
  }
  listeners_.notify();
  return outcomes;
}

MemoryQueue::PreparedEnd MemoryQueue::prepare(const Mark& mark, TimePoint now) {
  PreparedEnd prepared{.row = rows_.index.find(mark.key), .error = error_text(mark.error)};
  if (prepared.row == nullptr) return prepared;
  const Row& row = *prepared.row;
  prepared.attempt = attempt_to_keep(row, marked_attempt(row.state, mark.as, prepared.error, now));
  return prepared;
}

// One that came before it in the call may have ended the same delivery.
MarkOutcome MemoryQueue::mark_one(PreparedEnd&& prepared, MarkAs as, TimePoint now) noexcept {
  Row* const row = prepared.row;
  if (row == nullptr) return MarkOutcome::unknown;
  const bool ends_delivery = row->state.lease.has_value();
  MarkOutcome outcome{};
  rows_.index.edit(*row, now, [&]() noexcept {
    outcome = apply_mark(row->state, as, std::move(prepared.error), now);
  });
  if (ends_delivery) rows_.keep(*row, std::move(prepared.attempt));
  return outcome;
}

/// Ends lapsed leases and buries what may not be handed out any more. When it is destroyed without
/// `commit`, because something failed meanwhile, everything is as it was before.
class MemoryQueue::ReapBatch {
 public:
  ReapBatch(Rows& rows, const TopicPolicies& policies, TimePoint now)
      : rows_(rows), index_(rows.index), policies_(policies), now_(now) {}
  ReapBatch(const ReapBatch&) = delete;
  ReapBatch& operator=(const ReapBatch&) = delete;

  ~ReapBatch() {
    for (auto step = undo_.rbegin(); step != undo_.rend(); ++step) {
      Row& row = *step->row;
      index_.edit(row, now_, [&]() noexcept {
        row.state = std::move(step->state);
        row.partition = step->partition;
      });
      unpin(*step);
    }
  }

  void commit() noexcept {
    for (UndoStep& step : undo_) {
      unpin(step);
      rows_.keep(*step.row, std::move(step.attempt));
    }
    undo_.clear();
  }

  ReapResult reap(std::size_t limit) {
    ReapResult result;
    Row* row = nullptr;
    while (result.total() < limit && (row = index_.first_lapsed(now_)) != nullptr) {
      const ResolvedPolicy& policy = policies_.for_topic(row->content->topic.str());
      if (std::optional<std::string> cause = cause_of_death(row->state, policy, now_)) {
        bury(*row, std::move(*cause), result);
      } else {
        change(*row, [](RowState& state) { lapse(state); });
        ++result.released;
      }
    }
    while (result.total() < limit && (row = index_.first_expired(now_)) != nullptr) {
      bury(*row, "expired", result);
    }
    return result;
  }

 private:
  struct UndoStep {
    Row* row;
    RowState state;
    Partition* partition;  // pinned: the row may have been the last one in it
    PreparedAttempt attempt;
  };

  void bury(Row& row, std::string cause, ReapResult& result) {
    result.add({row.key, row.content->topic, cause});
    change(row, [&](RowState& state) { oncebox::bury(state, std::move(cause), now_); });
  }

  template <class Change>
  void change(Row& row, Change apply) {
    PreparedAttempt attempt = attempt_to_keep(row, lapsed_attempt(row.state));
    undo_.push_back({&row, row.state, row.partition, std::move(attempt)});
    if (row.partition != nullptr) ++row.partition->pins;
    index_.edit(row, now_, [&]() noexcept { apply(row.state); });
  }

  void unpin(UndoStep& step) noexcept {
    if (step.partition == nullptr) return;
    --step.partition->pins;
    index_.drop_if_unused(*step.partition);
  }

  Rows& rows_;
  QueueIndex& index_;
  const TopicPolicies& policies_;
  const TimePoint now_;
  std::vector<UndoStep> undo_;
};

ClaimResult MemoryQueue::do_claim(const ClaimRequest& request) {
  const WorkerName worker = worker_of(request);
  ClaimResult answer;
  try {
    while (claim_step(request, worker, answer)) {
    }
  } catch (const std::exception&) {
    if (answer.reaped.total() == 0) throw;  // otherwise the answer tells what was buried
  }
  return answer;
}

// A large backlog is reaped in steps that let others in between; what is left belongs to the claim.
// Everything that can fail comes before the change to the answer.
bool MemoryQueue::claim_step(const ClaimRequest& request, const WorkerName& worker,
                             ClaimResult& answer) {
  constexpr std::size_t kReapStep = 1'000;
  const detail::Lock lock(mutex_);
  const TimePoint now = read_clock();
  // Before the batch, whose steps still need the workers that it takes leases from.
  Worker& seen = see_worker(worker, now);
  ReapBatch batch(rows_, policies_, now);
  ReapResult reaped = batch.reap(kReapStep);
  const bool is_backlog = reaped.total() == kReapStep;
  ReapResult reaped_so_far = answer.reaped;
  reaped_so_far.add(std::move(reaped));
  if (!is_backlog) answer.messages = claim_ready(request, seen, now);
  batch.commit();
  answer.reaped = std::move(reaped_so_far);
  return is_backlog;
}

// Everything is copied before the first row changes, so that running out of memory changes nothing.
std::vector<ClaimedMessage> MemoryQueue::claim_ready(const ClaimRequest& request, Worker& worker,
                                                     TimePoint now) {
  rows_.index.promote(now);
  ClaimAllowance allowance(policies_, limit_uses(), now);
  const std::optional<TopicSelection> topics = allowance.among(request.topics);
  if (!topics) return {};
  ClaimAllowance choice = allowance;
  std::vector<Row*> rows = rows_.index.best_ready(request.limit, *topics, choice);
  keep_within(rows, request.max_bytes);
  std::vector<ClaimedMessage> claimed;
  claimed.reserve(rows.size());
  for (const Row* row : rows) {
    claimed.push_back({.message = to_message(*row, ListPayloads::include),
                       .history = row->state.history,
                       .owner = request.owner,
                       .delivery = rows_.index.next_delivery(),
                       .locked_until = now + request.lease,
                       .eligible_at = row->state.eligible_at,
                       .revived_at = row->state.revivals.last_at});
    ++claimed.back().history.deliveries;
  }
  tell_attempt_limits(claimed, policies_);
  for (const Row* row : rows) (void)allowance.take(*row->state.lane->topic);
  note_spent(allowance.uses());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RowState& state = rows[i]->state;
    rows_.index.edit(*rows[i], now, [&]() noexcept {
      hand_out(state, {.owner = claimed[i].owner,
                       .delivery = claimed[i].delivery,
                       .locked_until = claimed[i].locked_until,
                       .leased_at = now});
      state.worker = &worker;
    });
  }
  return claimed;
}

std::vector<LimitUse> MemoryQueue::limit_uses() {
  std::vector<LimitUse> uses;
  for (std::size_t i = 0; i < policies_.limits().size(); ++i) {
    LimitUse& use = uses.emplace_back(LimitUse{.spent_until_ns = spent_until_ns_[i]});
    use.leased = rows_.index.leased(policies_.limits()[i].pattern);
  }
  return uses;
}

std::int64_t MemoryQueue::spent_until_ns(const TopicPattern& pattern) const noexcept {
  for (std::size_t i = 0; i < spent_until_ns_.size(); ++i) {
    if (policies_.limits()[i].pattern == pattern) return spent_until_ns_[i];
  }
  return 0;
}

void MemoryQueue::note_spent(std::span<const LimitUse> uses) noexcept {
  for (std::size_t i = 0; i < uses.size(); ++i) spent_until_ns_[i] = uses[i].spent_until_ns;
}

Row* MemoryQueue::find_delivery(const Delivery& delivery) noexcept {
  Row* const row = rows_.index.find(delivery.key);
  return row != nullptr && is_held_by(row->state, delivery) ? row : nullptr;
}

std::size_t bytes_of(const Attempt& attempt) noexcept {
  const std::size_t worker = attempt.worker ? attempt.worker->str().size() : 0;
  return worker + attempt.error_kind.size() + attempt.error.size();
}

void MemoryQueue::Rows::keep(Row& row, PreparedAttempt attempt) noexcept {
  if (attempt.empty()) return;
  attempt.front().number = row.attempts.empty() ? 1 : row.attempts.back().number + 1;
  bytes += bytes_of(attempt.front());
  row.attempts.splice(row.attempts.end(), attempt);
  if (row.attempts.size() <= options.kept_attempts) return;
  bytes -= bytes_of(row.attempts.front());
  row.attempts.pop_front();
}

// A success is kept only where there are other attempts.
MemoryQueue::PreparedAttempt MemoryQueue::attempt_to_keep(const Row& row,
                                                          std::optional<Attempt> attempt) {
  PreparedAttempt kept;
  if (!attempt) return kept;
  if (attempt->outcome == AttemptOutcome::succeeded && row.attempts.empty()) return kept;
  attempt->worker = *row.state.worker->name;
  kept.push_back(std::move(*attempt));
  return kept;
}

MemoryQueue::PreparedEnd MemoryQueue::prepare(const Settlement& settlement, TimePoint now) {
  PreparedEnd prepared{.row = find_delivery(settlement.delivery)};
  if (prepared.row == nullptr) return prepared;
  const Row& row = *prepared.row;
  const bool succeeds_at_once =
      std::holds_alternative<Ack>(settlement.verdict) && !may_have_attempts(row.state);
  if (succeeds_at_once) return prepared;
  prepared.error = error_text(settlement.verdict);
  prepared.attempt = attempt_to_keep(row, ended_attempt(row.state, settlement.verdict, now));
  return prepared;
}

std::vector<SettleOutcome> MemoryQueue::do_settle(std::span<const Settlement> settlements) {
  std::vector<PreparedEnd> prepared;
  prepared.reserve(settlements.size());
  std::vector<SettleOutcome> outcomes;
  outcomes.reserve(settlements.size());

  bool may_be_claimable = false;
  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    for (const Settlement& settlement : settlements) prepared.push_back(prepare(settlement, now));
    for (std::size_t i = 0; i < settlements.size(); ++i) {
      Row* const row = prepared[i].row;
      const bool frees_others = row != nullptr && row->partition != nullptr;
      outcomes.push_back(settle_one(std::move(prepared[i]), settlements[i], now));
      if (row != nullptr && (frees_others || row->state.status == Status::processing)) {
        may_be_claimable = true;
      }
    }
    may_be_claimable |= policies_.limits_concurrency();
  }
  if (may_be_claimable) listeners_.notify();
  return outcomes;
}

// One that came before it in the call may have ended the same delivery.
SettleOutcome MemoryQueue::settle_one(PreparedEnd&& prepared, const Settlement& settlement,
                                      TimePoint now) noexcept {
  Row* const row = prepared.row;
  if (row == nullptr || !is_held_by(row->state, settlement.delivery)) {
    return {SettleStatus::lease_lost};
  }
  const ResolvedPolicy& policy = policies_.for_topic(row->content->topic.str());
  SettleOutcome outcome{};
  rows_.index.edit(*row, now, [&]() noexcept {
    outcome = apply_verdict(row->state, settlement.verdict, std::move(prepared.error), policy, now);
  });
  rows_.keep(*row, std::move(prepared.attempt));
  return outcome;
}

std::vector<ExtendOutcome> MemoryQueue::do_extend(std::span<const LeaseExtension> extensions) {
  std::vector<ExtendOutcome> outcomes;
  outcomes.reserve(extensions.size());

  const detail::Lock lock(mutex_);
  const TimePoint now = read_clock();
  for (const LeaseExtension& extension : extensions) {
    Row* const row = find_delivery(extension.delivery);
    ExtendOutcome& outcome = outcomes.emplace_back();
    if (row == nullptr) continue;
    const TimePoint until = std::max(row->state.lease->locked_until, now + extension.lease);
    rows_.index.edit(*row, now, [&]() noexcept { row->state.lease->locked_until = until; });
    outcome.locked_until = until;
  }
  return outcomes;
}

ReapResult MemoryQueue::do_reap(const ReapRequest& request) {
  ReapResult result;
  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    ReapBatch batch(rows_, policies_, now);
    result = batch.reap(request.limit);
    batch.commit();
  }
  if (result.total() > 0) listeners_.notify();
  return result;
}

std::optional<TimePoint> MemoryQueue::do_next_due(const TopicSelection& topics) {
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  const ClaimAllowance allowance(policies_, limit_uses(), now);
  return allowance.next_due(topics, rows_.index.next_due(topics, now));
}

std::vector<TopicRule> MemoryQueue::rules() {
  const detail::Lock lock(mutex_);
  return policies_.rules();
}

void MemoryQueue::change_rules(
    QueueKind kind, const std::function<std::vector<TopicRule>(std::vector<TopicRule>)>& change) {
  {
    const detail::Lock lock(mutex_);
    TopicPolicies changed(kind, change(policies_.rules()));
    std::vector<std::int64_t> spent;
    for (const LimitedTopics& limited : changed.limits()) {
      spent.push_back(spent_until_ns(limited.pattern));
    }
    policies_ = std::move(changed);
    spent_until_ns_ = std::move(spent);
  }
  listeners_.notify();
}

void MemoryQueue::do_listen(std::weak_ptr<WorkListener> listener) {
  listeners_.add(std::move(listener));
}

std::vector<std::optional<MessageRecord>> MemoryQueue::do_find(std::span<const MessageKey> keys,
                                                               const FindOptions& options) {
  std::vector<std::optional<MessageRecord>> records;
  records.reserve(keys.size());
  AnswerRoom room(options.max_bytes);
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  for (const MessageKey& key : keys) {
    std::optional<MessageRecord> record;
    if (const Row* const row = rows_.index.find(key); row != nullptr) {
      record = to_record(*row, options.payloads, now);
      if (options.payloads == ListPayloads::include) {
        record->attempts.assign(row->attempts.begin(), row->attempts.end());
      }
      if (!room.take(bytes_of(*record))) break;
    }
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace oncebox::memory
