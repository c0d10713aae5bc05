#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "memory_queue.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/retry_policy.hpp"

namespace oncebox::memory {

namespace {

std::string error_text(const std::string& text) { return clip_text(text, limits::kMaxErrorBytes); }

std::string error_of(const Verdict& verdict) {
  if (const auto* abandon = std::get_if<Abandon>(&verdict)) return error_text(abandon->error);
  if (const auto* fail = std::get_if<Fail>(&verdict)) return error_text(fail->error);
  return {};
}

// An empty text keeps the error that is there.
void note_error(RowState& state, std::string error) noexcept {
  if (!error.empty()) state.history.last_error = std::move(error);
}

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

}  // namespace

void finish(RowState& state, Status status, TimePoint now) noexcept {
  state.status = status;
  state.lease.reset();
  state.finished_at = now;
}

void bring_back(Row& row, TimePoint eligible_at, std::string reason, TimePoint now) noexcept {
  RowState& state = row.state;
  state.status = row.content != nullptr ? Status::processing : Status::seen;
  state.history.attempt = 0;
  state.history.deliveries = 0;
  state.history.lapses = 0;
  state.backoff_until = {};
  state.eligible_at = eligible_at;
  state.finished_at.reset();
  ++state.revivals.count;
  state.revivals.last_at = now;
  state.revivals.last_reason.reset();
  if (!reason.empty()) state.revivals.last_reason = std::move(reason);
}

MessageRecord to_record(const Row& row, ListPayloads payloads) {
  const RowState& state = row.state;
  MessageRecord record{.key = row.key,
                       .status = state.status,
                       .message = std::nullopt,
                       .hash = state.hash,
                       .history = state.history,
                       .lease = state.lease,
                       .eligible_at = std::nullopt,
                       .finished_at = state.finished_at,
                       .revivals = state.revivals};
  if (row.content == nullptr) return record;
  record.message = to_message(row, payloads);
  const bool unleased = state.status == Status::processing && !state.lease;
  if (unleased) record.eligible_at = state.eligible_at;
  return record;
}

std::vector<MarkOutcome> MemoryQueue::do_mark(std::span<const Mark> marks) {
  std::vector<std::string> errors;
  errors.reserve(marks.size());
  for (const Mark& mark : marks) errors.push_back(error_text(mark.error));
  std::vector<MarkOutcome> outcomes;
  outcomes.reserve(marks.size());

  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  for (std::size_t i = 0; i < marks.size(); ++i) {
    Row* const row = index_.find(marks[i].key);
    outcomes.push_back(mark_one(row, marks[i].as, std::move(errors[i]), now));
  }
  return outcomes;
}

MarkOutcome MemoryQueue::mark_one(Row* row, MarkAs as, std::string error, TimePoint now) noexcept {
  if (row == nullptr) return MarkOutcome::unknown;
  RowState& state = row->state;
  const bool is_done = state.status == Status::done;
  const bool is_dead = state.status == Status::dead;
  switch (as) {
    case MarkAs::processed:
      if (!is_done) index_.edit(*row, now, [&]() noexcept { finish(state, Status::done, now); });
      return MarkOutcome::marked;
    case MarkAs::dead:
      if (is_done) return MarkOutcome::refused;
      note_error(state, std::move(error));
      if (!is_dead) index_.edit(*row, now, [&]() noexcept { finish(state, Status::dead, now); });
      return MarkOutcome::marked;
    case MarkAs::processing:
      if (is_done || is_dead) return MarkOutcome::refused;
      index_.edit(*row, now, [&]() noexcept {
        state.status = Status::processing;
        state.lease.reset();
      });
      return MarkOutcome::marked;
  }
  return MarkOutcome::refused;
}

/// Ends lapsed leases and buries what may not be handed out any more. When it is destroyed without
/// `commit`, because something failed meanwhile, everything is as it was before.
class MemoryQueue::ReapBatch {
 public:
  ReapBatch(MemoryQueue& queue, TimePoint now) : index_(queue.index_), now_(now) {}
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
    for (UndoStep& step : undo_) unpin(step);
    undo_.clear();
  }

  ReapResult reap(std::size_t limit, int max_deliveries) {
    ReapResult result;
    Row* row = nullptr;
    while (result.total() < limit && (row = index_.first_lapsed(now_)) != nullptr) {
      const bool buried = end_lapsed_lease(*row, max_deliveries);
      ++(buried ? result.buried : result.released);
    }
    while (result.total() < limit && (row = index_.first_expired(now_)) != nullptr) {
      bury(*row, "expired");
      ++result.buried;
    }
    return result;
  }

 private:
  struct UndoStep {
    Row* row;
    RowState state;
    Partition* partition;  // pinned: the row may have been the last one in it
  };

  // Answers whether the message went dead.
  bool end_lapsed_lease(Row& row, int max_deliveries) {
    const RowState& state = row.state;
    const int lapses = state.history.lapses + 1;
    if (state.history.attempt + lapses >= max_deliveries) {
      bury(row, fmt::format("lease expired {} times", lapses));
    } else if (state.expired_at(now_)) {
      bury(row, "expired");
    } else {
      change(row, [](RowState& changed) {
        changed.eligible_at = changed.not_before(changed.lease->locked_until);
        ++changed.history.lapses;
        changed.lease.reset();
      });
      return false;
    }
    return true;
  }

  void bury(Row& row, std::string error) {
    change(row, [&](RowState& state) {
      if (state.lease) ++state.history.lapses;
      state.history.last_error = std::move(error);
      finish(state, Status::dead, now_);
    });
  }

  template <class Change>
  void change(Row& row, Change apply) {
    undo_.push_back({&row, row.state, row.partition});
    if (row.partition != nullptr) ++row.partition->pins;
    index_.edit(row, now_, [&]() noexcept { apply(row.state); });
  }

  void unpin(UndoStep& step) noexcept {
    if (step.partition == nullptr) return;
    --step.partition->pins;
    index_.drop_if_unused(*step.partition);
  }

  QueueIndex& index_;
  const TimePoint now_;
  std::vector<UndoStep> undo_;
};

std::vector<ClaimedMessage> MemoryQueue::do_claim(const ClaimRequest& request) {
  // A large backlog is reaped in steps that let others in between; what is left belongs to the
  // claim.
  constexpr std::size_t kReapStep = 1'000;
  for (;;) {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_.now();
    ReapBatch reaped(*this, now);
    const ReapResult result = reaped.reap(kReapStep, request.max_deliveries);
    if (result.total() == kReapStep) {
      reaped.commit();
      continue;
    }
    std::vector<ClaimedMessage> claimed = claim_ready(request, now);
    reaped.commit();
    return claimed;
  }
}

// Everything is copied before the first row changes, so that running out of memory changes nothing.
std::vector<ClaimedMessage> MemoryQueue::claim_ready(const ClaimRequest& request, TimePoint now) {
  index_.promote(now);
  const std::vector<Row*> rows = index_.best_ready(request.limit, request.topics);
  std::vector<ClaimedMessage> claimed;
  claimed.reserve(rows.size());
  for (const Row* row : rows) {
    claimed.push_back({.message = to_message(*row, ListPayloads::include),
                       .history = row->state.history,
                       .owner = request.owner,
                       .delivery = index_.next_delivery(),
                       .locked_until = now + request.lease});
    ++claimed.back().history.deliveries;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RowState& state = rows[i]->state;
    index_.edit(*rows[i], now, [&]() noexcept {
      state.lease = MessageLease{request.owner, claimed[i].delivery, claimed[i].locked_until};
      state.claimed_version = state.history.content_version;
      ++state.history.deliveries;
    });
  }
  return claimed;
}

Row* MemoryQueue::find_delivery(const Delivery& delivery) noexcept {
  Row* const row = index_.find(delivery.key);
  if (row == nullptr || !row->state.lease) return nullptr;
  const MessageLease& lease = *row->state.lease;
  const bool fenced_off = delivery.number && *delivery.number != lease.delivery;
  return lease.owner == delivery.owner && !fenced_off ? row : nullptr;
}

std::vector<SettleOutcome> MemoryQueue::do_settle(std::span<const Settlement> settlements) {
  std::vector<std::string> errors;
  errors.reserve(settlements.size());
  for (const Settlement& settlement : settlements) {
    errors.push_back(error_of(settlement.verdict));
  }
  std::vector<SettleOutcome> outcomes;
  outcomes.reserve(settlements.size());

  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  for (std::size_t i = 0; i < settlements.size(); ++i) {
    Row* const row = find_delivery(settlements[i].delivery);
    outcomes.push_back(settle_one(row, settlements[i].verdict, std::move(errors[i]), now));
  }
  return outcomes;
}

SettleOutcome MemoryQueue::settle_one(Row* row, const Verdict& verdict, std::string error,
                                      TimePoint now) noexcept {
  if (row == nullptr) return SettleOutcome::lease_lost;
  RowState& state = row->state;
  const bool released = std::holds_alternative<Release>(verdict);
  const bool superseded = !released && state.claimed_version != state.history.content_version;
  index_.edit(*row, now, [&]() noexcept {
    state.lease.reset();
    if (released) return;
    if (superseded) {
      state.eligible_at = state.not_before(now);
      return;
    }
    note_error(state, std::move(error));
    if (const auto* abandon = std::get_if<Abandon>(&verdict)) {
      ++state.history.attempt;
      state.backoff_until = now + abandon->delay.value_or(default_backoff(state.history.attempt));
      state.eligible_at = state.not_before(state.backoff_until);
    } else {
      finish(state, std::holds_alternative<Ack>(verdict) ? Status::done : Status::dead, now);
    }
  });
  return superseded ? SettleOutcome::superseded : SettleOutcome::settled;
}

std::vector<ExtendOutcome> MemoryQueue::do_extend(std::span<const LeaseExtension> extensions) {
  std::vector<ExtendOutcome> outcomes;
  outcomes.reserve(extensions.size());

  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  for (const LeaseExtension& extension : extensions) {
    Row* const row = find_delivery(extension.delivery);
    ExtendOutcome& outcome = outcomes.emplace_back();
    if (row == nullptr) continue;
    const TimePoint until = std::max(row->state.lease->locked_until, now + extension.lease);
    index_.edit(*row, now, [&]() noexcept { row->state.lease->locked_until = until; });
    outcome.locked_until = until;
  }
  return outcomes;
}

ReapResult MemoryQueue::do_reap(const ReapRequest& request) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  ReapBatch batch(*this, now);
  const ReapResult result = batch.reap(request.limit, request.max_deliveries);
  batch.commit();
  return result;
}

std::vector<std::optional<MessageRecord>> MemoryQueue::do_find(std::span<const MessageKey> keys) {
  std::vector<std::optional<MessageRecord>> records;
  records.reserve(keys.size());
  const std::lock_guard lock(mutex_);
  for (const MessageKey& key : keys) {
    const Row* const row = index_.find(key);
    records.emplace_back();
    if (row != nullptr) records.back() = to_record(*row, ListPayloads::include);
  }
  return records;
}

}  // namespace oncebox::memory
