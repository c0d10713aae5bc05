#include <algorithm>
#include <utility>

#include "oncebox/sql/storage_key.hpp"
#include "queue_report.hpp"
#include "sqlite_queue.hpp"

namespace oncebox::sqlite {

namespace {

// Moves a leased message out of its row.
ClaimedMessage take_claimed(QueueRow& row) {
  MessageState& state = row.state;
  return {.message = {.key = std::move(row.key),
                      .topic = std::move(row.content->topic),
                      .payload = std::move(row.content->payload),
                      .headers = std::move(row.content->headers),
                      .hash = std::move(state.hash),
                      .priority = state.priority,
                      .partition_key = std::move(state.partition_key),
                      .due_at = state.due_at,
                      .expires_at = state.expires_at},
          .history = std::move(state.history),
          .owner = state.lease->owner,
          .delivery = state.lease->delivery,
          .locked_until = state.lease->locked_until,
          .eligible_at = state.eligible_at};
}

}  // namespace

SqliteQueue::SqliteQueue(const StoreParts& parts, std::string_view queue,
                         std::size_t max_payload_bytes)
    : parts_(parts),
      name_(queue),
      max_payload_bytes_(max_payload_bytes),
      table_(parts.connection, queue, parts.topics) {}

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
      answers.push_back(apply_mark(row->state, mark.as, error_text(mark.error), now));
      if (answers.back() == MarkOutcome::marked) table_.save(*row);
    }
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

std::vector<ClaimedMessage> SqliteQueue::do_claim(const ClaimRequest& request) {
  // A large backlog is reaped in steps that let others in between; what is left belongs to the
  // claim.
  constexpr std::size_t kReapStep = 1'000;
  for (;;) {
    std::optional<std::vector<ClaimedMessage>> claimed =
        write(Flush::may_wait, [&](TimePoint now) -> std::optional<std::vector<ClaimedMessage>> {
          const ReapResult reaped = reap_some(kReapStep, request.max_deliveries, now);
          if (reaped.total() == kReapStep) return std::nullopt;
          table_.settle_partitions();
          return claim_ready(request, now);
        });
    if (claimed) return std::move(*claimed);
  }
}

std::vector<ClaimedMessage> SqliteQueue::claim_ready(const ClaimRequest& request, TimePoint now) {
  const std::vector<std::int64_t> ids = table_.best_ready(request.limit, request.topics, now);
  std::vector<ClaimedMessage> claimed;
  claimed.reserve(ids.size());
  std::size_t bytes = 0;
  for (const std::int64_t id : ids) {
    QueueRow row = table_.get(id);
    bytes += row.content->payload.size();
    if (bytes > request.max_bytes && !claimed.empty()) break;
    table_.lease(row, request.owner, now + request.lease);
    claimed.push_back(take_claimed(row));
  }
  return claimed;
}

std::vector<SettleOutcome> SqliteQueue::do_settle(std::span<const Settlement> settlements) {
  bool may_be_claimable = false;
  auto outcomes = write(Flush::required, [&](TimePoint now) {
    may_be_claimable = false;
    std::vector<SettleOutcome> answers;
    answers.reserve(settlements.size());
    for (const Settlement& settlement : settlements) {
      if (std::holds_alternative<Ack>(settlement.verdict) &&
          table_.acknowledge(settlement.delivery, now)) {
        answers.push_back(SettleOutcome::settled);
        continue;
      }
      answers.push_back(settle_one(settlement, now));
      if (answers.back() != SettleOutcome::lease_lost) may_be_claimable = true;
    }
    return answers;
  });
  if (may_be_claimable) listeners_.notify();
  return outcomes;
}

SettleOutcome SqliteQueue::settle_one(const Settlement& settlement, TimePoint now) {
  std::optional<QueueRow> row = table_.find(settlement.delivery.key);
  if (!row || !is_held_by(row->state, settlement.delivery)) return SettleOutcome::lease_lost;
  const SettleOutcome outcome =
      apply_verdict(row->state, settlement.verdict, error_text(settlement.verdict), now);
  table_.save(*row);
  return outcome;
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

ReapResult SqliteQueue::reap_some(std::size_t limit, int max_deliveries, TimePoint now) {
  ReapResult result;
  for (const std::int64_t id : table_.lapsed(now, limit)) {
    QueueRow row = table_.get(id);
    if (std::optional<std::string> cause = cause_of_death(row.state, max_deliveries, now)) {
      bury(row.state, std::move(*cause), now);
      ++result.buried;
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
    ++result.buried;
  }
  return result;
}

ReapResult SqliteQueue::do_reap(const ReapRequest& request) {
  const ReapResult result = write(Flush::required, [&](TimePoint now) {
    return reap_some(request.limit, request.max_deliveries, now);
  });
  if (result.total() > 0) listeners_.notify();
  return result;
}

std::optional<TimePoint> SqliteQueue::do_next_due(const TopicSelection& topics) {
  const TimePoint now = parts_.clock.now();
  return parts_.readers.run(
      [&](Connection& reader) { return read_next_due(reader, name_, topics, now); });
}

void SqliteQueue::do_listen(std::weak_ptr<WorkListener> listener) {
  listeners_.add(std::move(listener));
  if (start_watching_) start_watching_();
}

std::vector<std::optional<MessageRecord>> SqliteQueue::do_find(std::span<const MessageKey> keys) {
  return parts_.readers.run([&](Connection& reader) {
    Statement find = reader.prepare(select_rows(name_, ListPayloads::include, "WHERE m.key = ?1"));
    std::vector<std::optional<MessageRecord>> records;
    records.reserve(keys.size());
    for (const MessageKey& key : keys) {
      std::optional<MessageRecord>& record = records.emplace_back();
      const sql::StorageKey storage_key = sql::storage_key(key);
      const ResetLater reset(find);
      if (!find.bind_blob(1, storage_key).step()) continue;
      record = to_record(read_row(find));
      if (record->key != key) record.reset();
    }
    return records;
  });
}

}  // namespace oncebox::sqlite
