#include "naive_queue.hpp"

#include <algorithm>
#include <tuple>
#include <variant>

#include "oncebox/limits.hpp"
#include "oncebox/retry_policy.hpp"

namespace oncebox::conformance {

namespace {

TimePoint later(TimePoint time, const std::optional<TimePoint>& other) {
  return other && *other > time ? *other : time;
}

bool hash_differs(const std::optional<ContentHash>& stored,
                  const std::optional<ContentHash>& given) {
  return stored && given && stored->algorithm() == given->algorithm() &&
         stored->digest() != given->digest();
}

bool same_content(const MessageRecord& record, const Message& message) {
  if (record.hash && message.hash && record.hash->algorithm() == message.hash->algorithm()) {
    return record.hash->digest() == message.hash->digest();
  }
  return record.message->payload == message.payload;
}

/// An empty text keeps what was there.
void note_error(MessageRecord& record, const std::string& error) {
  if (!error.empty()) record.history.last_error = clip_text(error, limits::kMaxErrorBytes);
}

void finish(MessageRecord& record, Status status, TimePoint now) {
  record.status = status;
  record.lease.reset();
  record.finished_at = now;
}

/// What a second enqueue changes in a message that has content. True when the content is new.
bool update_content(MessageRecord& record, const Message& message) {
  Message& stored = *record.message;
  const bool same = same_content(record, message);
  const bool new_version = !same || stored.topic != message.topic;
  stored.topic = message.topic;
  stored.priority = message.priority;
  stored.due_at = message.due_at;
  stored.expires_at = message.expires_at;
  if (!same) {
    stored.payload = message.payload;
    stored.headers = message.headers;
    record.hash = message.hash;
  } else if (!record.hash) {
    record.hash = message.hash;
  }
  if (new_version) ++record.history.content_version;
  return new_version;
}

/// Where a message stands after it was enqueued again. While it is leased this is where a release
/// takes it back to.
void replace_ready_time(NaiveRow& row, TimePoint now) {
  const TimePoint target = later(later(now, row.record.message->due_at), row.backoff_until);
  if (row.ready_at <= now && target <= now) return;
  row.ready_at = target;
}

void add_attempt(MessageRecord& record, Attempt attempt) {
  std::vector<Attempt>& attempts = record.attempts;
  attempt.number = attempts.empty() ? 1 : attempts.back().number + 1;
  attempts.push_back(std::move(attempt));
  if (attempts.size() > defaults::kKeptAttempts) attempts.erase(attempts.begin());
}

void lapse(NaiveRow& row) {
  ++row.record.history.lapses;
  row.ready_at = row.ready_after_lapse();
  add_attempt(row.record, {.worker = row.record.lease->worker,
                           .begun_at = row.record.lease->leased_at,
                           .ended_at = row.record.lease->locked_until,
                           .outcome = AttemptOutcome::lapsed});
  row.record.lease.reset();
}

bool selects(const TopicSelection& selection, const std::string& topic) {
  // How closely a list names the topic: -1 not at all, else the length of the longest stem, where
  // an exact name beats every stem.
  const auto closeness = [&](const std::vector<TopicPattern>& patterns) {
    int closest = -1;
    for (const TopicPattern& pattern : patterns) {
      if (!topic_matches(pattern, topic)) continue;
      constexpr int kExact = 1'000'000;
      const int close = pattern.is_exact() ? kExact : static_cast<int>(pattern.str().size());
      closest = std::max(closest, close);
    }
    return closest;
  };
  const int refused = closeness(selection.except);
  if (selection.only.empty()) return refused < 0;
  return closeness(selection.only) > refused;
}

}  // namespace

void take_away(NaiveRow& row, AttemptOutcome outcome, const std::string& error, TimePoint now) {
  MessageRecord& record = row.record;
  if (!record.lease) return;
  if (row.lapsed_at(now)) {
    lapse(row);
    return;
  }
  ++record.history.lapses;
  add_attempt(record, {.worker = record.lease->worker,
                       .begun_at = record.lease->leased_at,
                       .ended_at = now,
                       .outcome = outcome,
                       .error = clip_text(error, limits::kMaxErrorBytes)});
}

bool topic_matches(const TopicPattern& pattern, const std::string& topic) {
  const std::string& text = pattern.str();
  if (text.back() != '*') return text == topic;
  return topic.starts_with(text.substr(0, text.size() - 1));
}

// A row ---------------------------------------------------------------------------------------

bool NaiveRow::leased_at(TimePoint now) const {
  return record.lease && record.lease->locked_until > now;
}

bool NaiveRow::lapsed_at(TimePoint now) const {
  return record.lease && record.lease->locked_until <= now;
}

bool NaiveRow::expired_at(TimePoint now) const {
  return record.message && record.message->expires_at && *record.message->expires_at <= now;
}

TimePoint NaiveRow::ready_after_lapse() const {
  return later(record.lease->locked_until, record.message->due_at);
}

void NaiveRow::revive(const ReviveOptions& options, TimePoint now) {
  record.history.attempt = 0;
  record.history.deliveries = 0;
  record.history.lapses = 0;
  record.finished_at.reset();
  ++record.revivals.count;
  record.revivals.last_at = now;
  record.revivals.last_reason.reset();
  if (!options.reason.empty()) {
    record.revivals.last_reason = clip_text(options.reason, limits::kMaxReasonBytes);
  }
  record.status = record.message ? Status::processing : Status::seen;
  if (!record.message) return;
  backoff_until = {};
  ready_at = later(now + options.delay, record.message->due_at);
  if (options.delay > Duration::zero()) record.message->due_at = ready_at;
}

// Enqueue, observe, mark ------------------------------------------------------------------------

std::vector<EnqueueOutcome> NaiveQueue::enqueue(std::span<const Message> messages,
                                                const EnqueueOptions& options, TimePoint now) {
  std::vector<EnqueueOutcome> outcomes;
  for (const Message& message : messages) outcomes.push_back(enqueue_one(message, options, now));
  return outcomes;
}

EnqueueOutcome NaiveQueue::enqueue_one(const Message& message, const EnqueueOptions& options,
                                       TimePoint now) {
  NaiveRow* row = row_of(message.key);
  if (row == nullptr) row = &add_row(message.key, now);
  MessageRecord& record = row->record;
  record.history.last_seen_at = now;

  EnqueueOutcome outcome;
  outcome.hash_mismatch = hash_differs(record.hash, message.hash);
  const bool keeps_first = options.on_hash_mismatch == HashMismatchPolicy::keep_first;
  const bool differs =
      record.message && (record.message->topic != message.topic || !same_content(record, message));
  const bool rejects = options.on_hash_mismatch == HashMismatchPolicy::reject;
  if ((outcome.hash_mismatch && (rejects || keeps_first)) || (differs && keeps_first)) {
    outcome.status = EnqueueStatus::rejected;
    return outcome;
  }
  if (outcome.hash_mismatch && options.on_hash_mismatch == HashMismatchPolicy::quarantine) {
    outcome.status = EnqueueStatus::quarantined;
    const MessageId id = quarantine_id(message.key, message.hash.value());
    const NaiveRow* const before = row_of({message.key.source, id});
    const bool was_stored = before != nullptr && before->record.message.has_value();
    const bool was_finished = before != nullptr && (before->record.status == Status::done ||
                                                    before->record.status == Status::dead);
    outcome.newly_dead = !was_stored && !was_finished;
    outcome.quarantined_as = quarantine(message, now);
    return outcome;
  }

  const bool taken_in_before =
      record.message || record.status == Status::done || record.status == Status::dead;
  if (!taken_in_before) {
    accept(*row, message, now);
    outcome.status = EnqueueStatus::accepted;
    return outcome;
  }

  ++record.history.duplicates;
  if (record.status == Status::done) {
    outcome.status = EnqueueStatus::duplicate_done;
    return outcome;
  }
  if (record.status == Status::dead) {
    const bool revives = options.on_dead == DeadPolicy::revive;
    if (record.message) {
      if (revives || !keeps_first) update_content(record, message);
    } else {
      accept(*row, message, now);
      record.status = Status::dead;
    }
    outcome.status = EnqueueStatus::duplicate_dead;
    if (revives) {
      row->revive({.reason = "enqueued again"}, now);
      outcome.status = EnqueueStatus::revived;
    }
    return outcome;
  }

  if (keeps_first) {
    outcome.status = EnqueueStatus::duplicate;
    return outcome;
  }
  const bool new_content = update_content(record, message);
  replace_ready_time(*row, now);
  if (!new_content) {
    outcome.status = EnqueueStatus::duplicate;
  } else {
    outcome.status = row->leased_at(now) ? EnqueueStatus::superseding : EnqueueStatus::updated;
  }
  return outcome;
}

/// The first content of a key.
void NaiveQueue::accept(NaiveRow& row, const Message& message, TimePoint now) {
  row.record.status = Status::processing;
  row.record.message = message;
  if (message.hash) row.record.hash = message.hash;
  row.record.history.content_version = 1;
  row.enqueue_order = ++enqueues_;
  row.ready_at = later(now, message.due_at);
}

/// Also where the derived id was observed or marked before, but nothing was ever stored under it.
MessageId NaiveQueue::quarantine(const Message& message, TimePoint now) {
  const Message copy = quarantined_copy(message);
  NaiveRow* row = row_of(copy.key);
  if (row == nullptr) row = &add_row(copy.key, now);
  MessageRecord& record = row->record;
  record.history.last_seen_at = now;
  if (record.message || record.status == Status::done) {
    ++record.history.duplicates;
    return copy.key.message_id;
  }
  accept(*row, copy, now);
  finish(record, Status::dead, now);
  note_error(record, "content hash differs");
  return copy.key.message_id;
}

std::vector<ObserveOutcome> NaiveQueue::observe(std::span<const Observation> observations,
                                                TimePoint now) {
  std::vector<ObserveOutcome> outcomes;
  for (const Observation& observation : observations) {
    ObserveOutcome outcome;
    NaiveRow* row = row_of(observation.key);
    if (row == nullptr) {
      outcome.state = ObservedState::unseen;
      row = &add_row(observation.key, now);
    } else if (row->record.status == Status::seen) {
      outcome.state = ObservedState::seen;
    } else if (row->record.status == Status::done) {
      outcome.state = ObservedState::done;
    } else if (row->record.status == Status::dead) {
      outcome.state = ObservedState::dead;
    } else {
      outcome.state = row->leased_at(now)    ? ObservedState::leased
                      : waits_for(*row, now) ? ObservedState::waiting
                                             : ObservedState::ready;
    }
    outcome.hash_mismatch = hash_differs(row->record.hash, observation.hash);
    row->record.history.last_seen_at = now;
    if (!row->record.hash) row->record.hash = observation.hash;
    outcomes.push_back(outcome);
  }
  return outcomes;
}

std::vector<MarkOutcome> NaiveQueue::mark(std::span<const Mark> marks, TimePoint now) {
  std::vector<MarkOutcome> outcomes;
  for (const Mark& mark : marks) {
    NaiveRow* row = row_of(mark.key);
    if (row == nullptr) {
      outcomes.push_back(MarkOutcome::unknown);
      continue;
    }
    MessageRecord& record = row->record;
    const bool finished = record.status == Status::done || record.status == Status::dead;
    const bool refused = (mark.as == MarkAs::processing && finished) ||
                         (mark.as == MarkAs::dead && record.status == Status::done);
    const Status wanted = mark.as == MarkAs::processed ? Status::done : Status::dead;
    const bool already = finished && record.status == wanted;
    outcomes.push_back(refused   ? MarkOutcome::refused
                       : already ? MarkOutcome::already
                                 : MarkOutcome::marked);
    if (refused) continue;
    if (mark.as == MarkAs::processing) {
      record.status = Status::processing;
      record.lease.reset();
      continue;
    }
    if (mark.as == MarkAs::dead) {
      note_error(record, mark.error);
      take_away(*row, AttemptOutcome::marked_dead, mark.error, now);
    } else if (record.lease && !record.attempts.empty()) {
      add_attempt(record, {.worker = record.lease->worker,
                           .begun_at = record.lease->leased_at,
                           .ended_at = now,
                           .outcome = AttemptOutcome::succeeded});
    }
    if (!already) finish(record, wanted, now);
  }
  return outcomes;
}

// Claim, settle, extend, reap -------------------------------------------------------------------

/// Oldest unfinished of its partition.
bool NaiveQueue::is_head(const NaiveRow& row) const {
  const auto& partition = row.record.message->partition_key;
  return std::ranges::none_of(rows_, [&](const NaiveRow& other) {
    return partition && other.record.status == Status::processing && other.record.message &&
           other.record.message->partition_key == partition &&
           other.enqueue_order < row.enqueue_order;
  });
}

/// Whether somebody holds a message of its partition, or held it and was not reaped yet.
bool NaiveQueue::partition_has_owner(const NaiveRow& row) const {
  const auto& partition = row.record.message->partition_key;
  return std::ranges::any_of(rows_, [&](const NaiveRow& other) {
    return partition && other.record.lease && other.record.message->partition_key == partition;
  });
}

/// After a reap: every lease that is left is live.
bool NaiveQueue::claimable(const NaiveRow& row, const TopicSelection& topics, TimePoint now) const {
  const MessageRecord& record = row.record;
  return record.status == Status::processing && record.message && !record.lease &&
         row.ready_at <= now && selects(topics, record.message->topic.str()) && is_head(row) &&
         !partition_has_owner(row);
}

std::vector<ClaimedMessage> NaiveQueue::claim(const ClaimRequest& request, TimePoint now) {
  reap(now);

  std::vector<NaiveRow*> candidates;
  for (NaiveRow& row : rows_) {
    if (claimable(row, request.topics, now)) candidates.push_back(&row);
  }
  std::ranges::sort(candidates, {}, [](const NaiveRow* row) {
    const int priority = row->record.message->priority.value();
    return std::tuple(-priority, row->ready_at, row->enqueue_order);
  });
  if (candidates.size() > request.limit) candidates.resize(request.limit);

  std::vector<ClaimedMessage> claimed;
  std::size_t bytes = 0;
  for (NaiveRow* row : candidates) {
    MessageRecord& record = row->record;
    bytes += bytes_of(*record.message);
    if (!claimed.empty() && bytes > request.max_bytes) break;
    ++record.history.deliveries;
    row->leased_version = record.history.content_version;
    record.lease = MessageLease{.owner = request.owner,
                                .delivery = DeliveryNumber{},
                                .locked_until = now + request.lease,
                                .leased_at = now,
                                .worker = worker_of(request)};
    claimed.push_back({.message = *visible(*row, now).message,
                       .history = record.history,
                       .owner = request.owner,
                       .delivery = {},
                       .locked_until = record.lease->locked_until,
                       .eligible_at = row->ready_at,
                       .revived_at = record.revivals.last_at,
                       .attempt_limit = policy_.limit()});
  }
  return claimed;
}

NaiveQueue::DueBounds NaiveQueue::next_due(const TopicSelection& topics, TimePoint now) const {
  DueBounds bounds;
  const auto take_earlier = [](std::optional<TimePoint>& bound, TimePoint time) {
    if (!bound || time < *bound) bound = time;
  };
  for (const NaiveRow& row : rows_) {
    const MessageRecord& record = row.record;
    if (record.status != Status::processing || !record.message) continue;
    const TimePoint time = record.lease ? row.ready_after_lapse() : row.ready_at;
    if (time <= now) continue;
    // Whose lease lapses may also be told of for another topic, or before it is due.
    if (record.lease && record.lease->locked_until > now) {
      take_earlier(bounds.earliest, record.lease->locked_until);
    }
    if (!selects(topics, record.message->topic.str()) && !record.lease) continue;
    take_earlier(bounds.earliest, time);
    const bool can_be_next = record.lease || (is_head(row) && !partition_has_owner(row));
    if (can_be_next && selects(topics, record.message->topic.str())) {
      take_earlier(bounds.latest, time);
    }
  }
  return bounds;
}

bool NaiveQueue::adopt_deliveries(std::span<const ClaimedMessage> claimed) {
  std::vector<DeliveryNumber> numbers{last_delivery_};
  for (const ClaimedMessage& message : claimed) {
    row_of(message.message.key)->record.lease->delivery = message.delivery;
    numbers.push_back(message.delivery);
  }
  std::ranges::sort(numbers);
  const bool smallest_is_old = numbers.front() == last_delivery_;
  const bool all_differ = std::ranges::adjacent_find(numbers) == numbers.end();
  last_delivery_ = numbers.back();
  return smallest_is_old && all_differ;
}

/// The row that this delivery holds, lapsed or not.
NaiveRow* NaiveQueue::holder(const Delivery& delivery) {
  NaiveRow* row = row_of(delivery.key);
  if (row == nullptr || !row->record.lease) return nullptr;
  if (row->record.lease->owner != delivery.owner) return nullptr;
  if (delivery.number && *delivery.number != row->record.lease->delivery) return nullptr;
  return row;
}

bool NaiveQueue::is_held(const Delivery& delivery) const {
  NaiveQueue copy = *this;
  return copy.holder(delivery) != nullptr;
}

std::vector<SettleOutcome> NaiveQueue::settle(std::span<const Settlement> settlements,
                                              TimePoint now) {
  std::vector<SettleOutcome> outcomes;
  for (const Settlement& settlement : settlements) outcomes.push_back(settle_one(settlement, now));
  return outcomes;
}

SettleOutcome NaiveQueue::settle_one(const Settlement& settlement, TimePoint now) {
  NaiveRow* row = holder(settlement.delivery);
  if (row == nullptr) return {SettleStatus::lease_lost};
  MessageRecord& record = row->record;
  const MessageLease lease = *record.lease;
  record.lease.reset();
  const auto tried = [&](AttemptOutcome outcome, const std::string& kind = "",
                         const std::string& error = "") {
    const bool is_first = record.attempts.empty();
    if (is_first && outcome == AttemptOutcome::succeeded) return;
    add_attempt(record, {.worker = lease.worker,
                         .begun_at = lease.leased_at,
                         .ended_at = now,
                         .outcome = outcome,
                         .error_kind = clip_text(kind, 100),
                         .error = clip_text(error, 2'048)});
  };
  const auto wait = [&](Duration delay) {
    row->backoff_until = now + delay;
    row->ready_at = later(row->backoff_until, record.message->due_at);
  };
  if (const auto* release = std::get_if<Release>(&settlement.verdict)) {
    if (release->delay) wait(*release->delay);
    return {.again_at = row->ready_at};
  }
  const auto* fail = std::get_if<Fail>(&settlement.verdict);
  const bool was_tried = fail == nullptr || !fail->untried;
  if (row->leased_version < record.history.content_version) {
    if (was_tried) tried(AttemptOutcome::superseded);
    row->ready_at = later(now, record.message->due_at);
    return {SettleStatus::superseded, row->ready_at};
  }
  if (std::holds_alternative<Ack>(settlement.verdict)) {
    tried(AttemptOutcome::succeeded);
    finish(record, Status::done, now);
    return {};
  }
  if (was_tried) ++record.history.attempt;
  if (fail != nullptr) {
    finish(record, Status::dead, now);
    note_error(record, fail->error);
    if (was_tried) tried(AttemptOutcome::failed, fail->error_kind, fail->error);
    return {.death = SettledDeath::failed};
  }
  const Abandon& abandon = std::get<Abandon>(settlement.verdict);
  note_error(record, abandon.error);
  tried(AttemptOutcome::abandoned, abandon.error_kind, abandon.error);
  const AttemptLimit limit = abandon.limit.value_or(policy_.limit());
  // The rule of a run says how many deliveries there are, and nothing about attempts.
  const PolicyOrigin origin = abandon.limit ? PolicyOrigin::worker : PolicyOrigin::queue;
  TimePoint since = later(record.history.first_seen_at, record.message->due_at);
  since = later(since, record.revivals.last_at);
  const bool is_old = !limit.give_up_after || now - since >= *limit.give_up_after;
  if (record.history.attempt >= limit.max_attempts && is_old) {
    finish(record, Status::dead, now);
    return {.death = SettledDeath::attempts, .policy = origin};
  }
  const std::uint64_t chance = retry_chance(lease.delivery);
  wait(abandon.delay.value_or(policy_.delay_after(record.history.attempt, chance)));
  return {.again_at = row->ready_at, .policy = origin};
}

std::vector<ExtendOutcome> NaiveQueue::extend(std::span<const LeaseExtension> extensions,
                                              TimePoint now) {
  std::vector<ExtendOutcome> outcomes;
  for (const LeaseExtension& extension : extensions) {
    NaiveRow* row = holder(extension.delivery);
    if (row != nullptr) {
      TimePoint& locked_until = row->record.lease->locked_until;
      locked_until = std::max(locked_until, now + extension.lease);
      outcomes.push_back({locked_until});
    } else {
      outcomes.push_back({});
    }
  }
  return outcomes;
}

// The lapse itself counts; failures beyond the policy's attempts do not.
bool NaiveQueue::lapses_too_often(const NaiveRow& row) const {
  const MessageHistory& history = row.record.history;
  const int failures =
      history.attempt < policy_.max_attempts ? history.attempt : policy_.max_attempts;
  return failures + history.lapses + 1 >= max_deliveries_;
}

ReapResult NaiveQueue::reap(TimePoint now) {
  ReapResult result;
  for (NaiveRow& row : rows_) {
    if (row.record.status != Status::processing || row.leased_at(now)) continue;
    const bool lapsed = row.lapsed_at(now);
    const bool too_often = lapsed && lapses_too_often(row);
    if (lapsed) lapse(row);
    if (too_often) {
      const int lapses = row.record.history.lapses;
      finish(row.record, Status::dead, now);
      note_error(row.record, "lease expired " + std::to_string(lapses) + " times");
      result.add({row.record.key, row.record.message->topic, *row.record.history.last_error});
    } else if (row.expired_at(now)) {
      finish(row.record, Status::dead, now);
      note_error(row.record, "expired");
      result.add({row.record.key, row.record.message->topic, "expired"});
    } else if (lapsed) {
      ++result.released;
    }
  }
  return result;
}

bool NaiveQueue::burial_due(TimePoint now) const {
  NaiveQueue copy = *this;
  return copy.reap(now).buried > 0;
}

NaiveRow* NaiveQueue::row_of(const MessageKey& key) {
  for (NaiveRow& row : rows_) {
    if (row.record.key == key) return &row;
  }
  return nullptr;
}

NaiveRow& NaiveQueue::add_row(const MessageKey& key, TimePoint now) {
  NaiveRow row{.record = {.key = key}};
  row.record.history.first_seen_at = now;
  row.record.history.last_seen_at = now;
  rows_.push_back(row);
  return rows_.back();
}

}  // namespace oncebox::conformance
