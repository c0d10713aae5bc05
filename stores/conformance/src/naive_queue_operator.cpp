#include <algorithm>

#include "naive_queue.hpp"

namespace oncebox::conformance {

namespace {

bool in_range(const TimeRange& range, TimePoint time) {
  if (range.from && time < *range.from) return false;
  return !range.until || time < *range.until;
}

bool filter_matches(const MessageFilter& filter, const MessageRecord& record) {
  const auto& statuses = filter.statuses;
  const bool has_message = record.message.has_value();
  const auto& error = record.history.last_error;
  if (!statuses.empty() && std::ranges::count(statuses, record.status) == 0) return false;
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
  if (!filter.finished.from && !filter.finished.until) return true;
  return record.finished_at && in_range(filter.finished, *record.finished_at);
}

}  // namespace

std::optional<MessageRecord> NaiveQueue::find(const MessageKey& key) const {
  for (const NaiveRow& row : rows_) {
    if (row.record.key == key) return row.visible();
  }
  return std::nullopt;
}

std::vector<MessageRecord> NaiveQueue::list(const MessageFilter& filter, ListOrder order) const {
  std::vector<MessageRecord> records;
  for (const NaiveRow& row : rows_) {
    if (filter_matches(filter, row.record)) records.push_back(row.visible());
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
      } else if (row.lapsed_at(now) && row.ready_after_lapse() <= now) {
        ready_times.push_back(row.ready_after_lapse());
      } else if (record.message && !record.lease && row.ready_at <= now && is_head(row) &&
                 !partition_has_owner(row)) {
        ready_times.push_back(row.ready_at);
      } else {
        ++stats.waiting;
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
  if (row->expired_at(now)) row->record.message->expires_at.reset();
  row->revive(options, now);
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
  for (const MessageRecord& record : list(filter, ListOrder::oldest_first)) {
    if (revived == limit) break;
    if (revive(record.key, options, now) == ReviveOutcome::revived) ++revived;
  }
  return revived;
}

PurgeOutcome NaiveQueue::purge(const MessageKey& key) {
  const NaiveRow* row = row_of(key);
  if (row == nullptr) return PurgeOutcome::unknown;
  if (row->record.status != Status::dead) return PurgeOutcome::not_dead;
  std::erase_if(rows_, [&](const NaiveRow& other) { return other.record.key == key; });
  return PurgeOutcome::purged;
}

std::size_t NaiveQueue::purge_matching(const MessageFilter& filter, std::size_t limit) {
  std::size_t purged = 0;
  for (const MessageRecord& record : list(filter, ListOrder::oldest_first)) {
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
