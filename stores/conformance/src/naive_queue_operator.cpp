#include <algorithm>

#include "naive_queue.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

namespace {

bool in_range(const TimeRange& range, TimePoint time) {
  if (range.from && time < *range.from) return false;
  return !range.until || time < *range.until;
}

bool filter_matches(const MessageFilter& filter, const MessageRecord& record) {
  const auto& statuses = filter.statuses;
  const auto& states = filter.states;
  const auto& reasons = filter.waiting_for;
  const bool is_waiting = record.state == State::waiting;
  const bool has_message = record.message.has_value();
  const auto& error = record.history.last_error;
  if (!statuses.empty() && std::ranges::count(statuses, record.status) == 0) return false;
  if (!states.empty() && std::ranges::count(states, record.state) == 0) return false;
  if (states.empty() && !reasons.empty() && !is_waiting) return false;
  if (is_waiting && !reasons.empty() && std::ranges::count(reasons, *record.waiting_for) == 0) {
    return false;
  }
  if (filter.topic && !has_message) return false;
  if (filter.topic && !topic_matches(*filter.topic, record.message->topic.str())) return false;
  if (filter.source && *filter.source != record.key.source) return false;
  if (filter.message_id && *filter.message_id != record.key.message_id) return false;
  if (filter.partition_key && !has_message) return false;
  if (filter.partition_key && filter.partition_key != record.message->partition_key) return false;
  if (filter.error_contains && !error) return false;
  if (filter.error_contains && error->find(*filter.error_contains) == std::string::npos) {
    return false;
  }
  if (!in_range(filter.first_seen, record.history.first_seen_at)) return false;
  if (filter.expires_after && has_message && record.message->expires_at &&
      *record.message->expires_at <= *filter.expires_after) {
    return false;
  }
  if (!filter.finished.from && !filter.finished.until) return true;
  return record.finished_at && in_range(filter.finished, *record.finished_at);
}

}  // namespace

/// Nothing: it does not wait. There are no pauses in the model.
std::optional<WaitingFor> NaiveQueue::waits_for(const NaiveRow& row, TimePoint now) const {
  if (row.record.status != Status::processing || row.leased_at(now)) return std::nullopt;
  if (!row.record.message) return WaitingFor::content;
  if (row.lapsed_at(now)) {
    return row.ready_after_lapse() > now ? std::optional(WaitingFor::due) : std::nullopt;
  }
  if (!is_head(row) || partition_has_owner(row)) return WaitingFor::partition;
  if (row.ready_at <= now) return std::nullopt;
  return row.backoff_until == row.ready_at ? WaitingFor::backoff : WaitingFor::due;
}

MessageRecord NaiveQueue::visible(const NaiveRow& row, TimePoint now) const {
  MessageRecord seen = row.record;
  if (seen.message) seen.message->hash = seen.hash;
  const bool is_unleased = seen.status == Status::processing && seen.message && !seen.lease;
  if (is_unleased) seen.eligible_at = row.ready_at;
  seen.waiting_for = waits_for(row, now);
  if (seen.status == Status::seen) seen.state = State::seen;
  if (seen.status == Status::done) seen.state = State::done;
  if (seen.status == Status::dead) seen.state = State::dead;
  if (seen.status == Status::processing) {
    seen.state = row.leased_at(now) ? State::leased
                 : seen.waiting_for ? State::waiting
                                    : State::ready;
  }
  return seen;
}

std::optional<MessageRecord> NaiveQueue::find(const MessageKey& key, TimePoint now) const {
  for (const NaiveRow& row : rows_) {
    if (row.record.key == key) return visible(row, now);
  }
  return std::nullopt;
}

std::vector<MessageRecord> NaiveQueue::list(const MessageFilter& filter, ListOrder order,
                                            TimePoint now) const {
  std::vector<MessageRecord> records;
  for (const NaiveRow& row : rows_) {
    MessageRecord record = visible(row, now);
    if (!filter_matches(filter, record)) continue;
    record.attempts.clear();
    records.push_back(std::move(record));
  }
  if (order == ListOrder::newest_first) std::ranges::reverse(records);
  return records;
}

std::vector<TopicStats> NaiveQueue::stats(TimePoint now) const {
  std::vector<std::optional<Topic>> topics;
  const auto topic_of = [](const NaiveRow& row) {
    const auto& message = row.record.message;
    return message ? std::optional(message->topic) : std::nullopt;
  };
  for (const NaiveRow& row : rows_) topics.push_back(topic_of(row));
  std::ranges::sort(topics);  // nothing comes before any topic
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());

  std::vector<TopicStats> answer;
  for (const auto& topic : topics) {
    TopicStats stats{.topic = topic};
    std::vector<TimePoint> ready_times;
    std::vector<TimePoint> death_times;
    for (const NaiveRow& row : rows_) {
      if (topic_of(row) != topic) continue;
      const MessageRecord& record = row.record;
      if (record.status == Status::seen) ++stats.seen;
      if (record.status == Status::done) ++stats.done;
      if (record.status == Status::dead) death_times.push_back(*record.finished_at);
      if (record.status != Status::processing) continue;
      if (row.leased_at(now)) {
        ++stats.leased;
      } else if (const std::optional<WaitingFor> what = waits_for(row, now)) {
        ++stats.waiting.of(*what);
      } else {
        ready_times.push_back(row.lapsed_at(now) ? row.ready_after_lapse() : row.ready_at);
      }
    }
    stats.ready = ready_times.size();
    stats.dead = death_times.size();
    if (stats.ready > 0) stats.oldest_ready_at = std::ranges::min(ready_times);
    if (stats.dead > 0) stats.oldest_dead_at = std::ranges::min(death_times);
    answer.push_back(stats);
  }
  return answer;
}

ReviveOutcome NaiveQueue::revive(const MessageKey& key, const ReviveOptions& options,
                                 TimePoint now) {
  NaiveRow* row = row_of(key);
  if (row == nullptr) return ReviveOutcome::unknown;
  if (row->record.status != Status::dead) return ReviveOutcome::not_dead;
  row->revive(options, now);
  if (row->expired_at(row->ready_at)) row->record.message->expires_at.reset();
  return ReviveOutcome::revived;
}

ReviveOutcome NaiveQueue::revive_edited(const EditedMessage& edit, const ReviveOptions& options,
                                        TimePoint now) {
  NaiveRow* row = row_of(edit.key);
  if (row != nullptr && row->record.status == Status::dead && !row->record.message) {
    return ReviveOutcome::no_content;
  }
  const ReviveOutcome outcome = revive(edit.key, options, now);
  if (outcome != ReviveOutcome::revived) return outcome;
  MessageRecord& record = row->record;
  PastContent past{.content_version = record.history.content_version,
                   .payload = record.message->payload,
                   .hash = record.hash,
                   .replaced_at = now};
  if (record.revivals.last_reason) past.reason = *record.revivals.last_reason;
  row->past.push_back(past);
  record.message->payload = edit.payload;
  record.hash = ContentHash::sha256_of(edit.payload);
  record.message->hash = record.hash;
  ++record.history.content_version;
  return outcome;
}

std::vector<PastContent> NaiveQueue::past_contents(const MessageKey& key) const {
  for (const NaiveRow& row : rows_) {
    if (row.record.key == key) return row.past;
  }
  return {};
}

std::size_t NaiveQueue::revive_matching(const MessageFilter& filter, const ReviveOptions& options,
                                        std::size_t limit, TimePoint now) {
  std::size_t revived = 0;
  for (const MessageRecord& record : list(filter, ListOrder::oldest_first, now)) {
    if (revived == limit) break;
    if (revive(record.key, options, now) == ReviveOutcome::revived) ++revived;
  }
  return revived;
}

std::vector<ActOutcome> NaiveQueue::act(std::span<const MessageKey> keys,
                                        const OperatorAction& action, const ActOptions& options,
                                        TimePoint now) {
  std::vector<bool> meant;
  for (const MessageKey& key : keys) {
    const std::optional<MessageRecord> record = find(key, now);
    meant.push_back(!record || !options.only || filter_matches(*options.only, *record));
  }
  std::vector<ActOutcome> outcomes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool is_refused = !meant[i] && row_of(keys[i]) != nullptr;
    outcomes.push_back(is_refused ? ActOutcome::refused : act(keys[i], action, options, now));
  }
  return outcomes;
}

ActOutcome NaiveQueue::act(const MessageKey& key, const OperatorAction& action,
                           const ActOptions& options, TimePoint now) {
  NaiveRow* row = row_of(key);
  if (row == nullptr) return ActOutcome::unknown;
  MessageRecord& record = row->record;
  const MessageRecord seen = visible(*row, now);
  const bool is_unfinished = record.status == Status::processing && record.message;
  const auto* reschedule = std::get_if<Reschedule>(&action);
  if (std::holds_alternative<Purge>(action) && record.status != Status::dead) {
    return ActOutcome::refused;
  }
  if (std::holds_alternative<Purge>(action) || std::holds_alternative<Delete>(action)) {
    if (seen.state == State::leased) return ActOutcome::refused;
    std::erase_if(rows_, [&](const NaiveRow& other) { return other.record.key == key; });
    return ActOutcome::changed;
  }
  if (!is_unfinished) return ActOutcome::refused;
  if (std::holds_alternative<Cancel>(action)) {
    std::string error = "cancelled";
    if (!options.reason.empty()) error += ": " + options.reason;
    take_away(*row, AttemptOutcome::cancelled, error, now);
    record.status = Status::dead;
    record.lease.reset();
    record.finished_at = now;
    record.history.last_error = clip_text(error, limits::kMaxErrorBytes);
    return ActOutcome::changed;
  }
  if (seen.state == State::leased) return ActOutcome::refused;
  const bool waits_for_time =
      seen.waiting_for == WaitingFor::due || seen.waiting_for == WaitingFor::backoff;
  if (reschedule == nullptr && !waits_for_time) return ActOutcome::refused;
  std::optional<TimePoint>& due_at = record.message->due_at;
  const std::optional<TimePoint>& expires_at = record.message->expires_at;
  if (reschedule != nullptr) {
    if (expires_at && reschedule->due_at >= *expires_at) return ActOutcome::expires_first;
    due_at = reschedule->due_at < now ? now : reschedule->due_at;
  } else if (due_at && *due_at > now) {
    due_at = now;
  }
  row->backoff_until = {};
  const TimePoint due = due_at.value_or(now);
  if (row->ready_at > now || due > now) row->ready_at = due > now ? due : now;
  return ActOutcome::changed;
}

std::size_t NaiveQueue::act_matching(const MessageFilter& filter, const OperatorAction& action,
                                     const ActOptions& options, std::size_t limit, TimePoint now) {
  std::size_t changed = 0;
  for (const MessageRecord& record : list(filter, ListOrder::oldest_first, now)) {
    if (changed == limit) break;
    if (act(record.key, action, options, now) == ActOutcome::changed) ++changed;
  }
  return changed;
}

PurgeOutcome NaiveQueue::purge(const MessageKey& key) {
  const NaiveRow* row = row_of(key);
  if (row == nullptr) return PurgeOutcome::unknown;
  if (row->record.status != Status::dead) return PurgeOutcome::not_dead;
  std::erase_if(rows_, [&](const NaiveRow& other) { return other.record.key == key; });
  return PurgeOutcome::purged;
}

std::size_t NaiveQueue::purge_matching(const MessageFilter& filter, std::size_t limit,
                                       TimePoint now) {
  std::size_t purged = 0;
  for (const MessageRecord& record : list(filter, ListOrder::oldest_first, now)) {
    if (purged == limit) break;
    if (purge(record.key) == PurgeOutcome::purged) ++purged;
  }
  return purged;
}

CleanupResult NaiveQueue::cleanup(const CleanupRequest& request, TimePoint now) {
  CleanupResult result;
  result.done_removed = std::erase_if(rows_, [&](const NaiveRow& row) {
    return row.record.status == Status::done &&
           *row.record.finished_at + request.done_retention <= now;
  });
  result.dead_removed = std::erase_if(rows_, [&](const NaiveRow& row) {
    return row.record.status == Status::dead && request.dead_retention &&
           *row.record.finished_at + *request.dead_retention <= now;
  });
  return result;
}

}  // namespace oncebox::conformance
