#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oncebox/error.hpp"
#include "sqlite_queue.hpp"

namespace oncebox::sqlite {

/// What enqueue and observe do to one message, inside a transaction.
class SqliteQueue::Intake {
 public:
  Intake(QueueTable& table, TimePoint now) : table_(table), now_(now) {}

  EnqueueOutcome enqueue(const Message& message, const EnqueueOptions& options) {
    if (table_.insert(message, now_)) return {};
    QueueRow row = known_row(message.key);
    EnqueueOutcome outcome{.hash_mismatch = hashes_differ(row.state.hash, message.hash)};
    if (outcome.hash_mismatch && options.on_hash_mismatch != HashMismatchPolicy::warn) {
      if (options.on_hash_mismatch == HashMismatchPolicy::quarantine) {
        outcome.quarantined_as = quarantine(message);
        outcome.status = EnqueueStatus::quarantined;
      } else {
        outcome.status = EnqueueStatus::rejected;
      }
      table_.touch(row.id, now_, 0);
      return outcome;
    }
    outcome.status = enqueue_again(row, message, options);
    return outcome;
  }

  ObserveOutcome observe(const Observation& observation) {
    std::optional<QueueRow> known = table_.find(observation.key);
    if (!known) {
      table_.insert_seen(observation.key, observation.hash, now_);
      return {};
    }
    const ObserveOutcome outcome{
        .state = observed_state(known->state, now_),
        .hash_mismatch = hashes_differ(known->state.hash, observation.hash)};
    if (observation.hash && !known->state.hash) {
      known->state.hash = observation.hash;
      table_.save_content(*known);
    }
    table_.touch(known->id, now_, 0);
    return outcome;
  }

 private:
  QueueRow known_row(const MessageKey& key) {
    std::optional<QueueRow> row = table_.find(key);
    if (!row) throw Error(ErrorCode::corrupt, "a message is in the index of keys only");
    return std::move(*row);
  }

  EnqueueStatus enqueue_again(QueueRow& row, const Message& message,
                              const EnqueueOptions& options) {
    const Status status = row.state.status;
    if (status == Status::done) {
      table_.touch(row.id, now_, 1);
      return EnqueueStatus::duplicate_done;
    }
    row.state.history.last_seen_at = now_;
    bool something_new = true;
    if (row.content) {
      something_new = update(row, message);
    } else {
      accept(row, message);
      if (status != Status::dead) {
        table_.save(row);
        return EnqueueStatus::accepted;
      }
      count_duplicate(row.state.history);
    }
    const bool leased = row.state.lease && row.state.lease->live_at(now_);
    if (status == Status::dead && options.on_dead == DeadPolicy::revive) {
      bring_back(row.state, row.state.not_before(now_), "enqueued again", now_);
    }
    table_.save(row);
    if (status == Status::dead) {
      return options.on_dead == DeadPolicy::revive ? EnqueueStatus::revived
                                                   : EnqueueStatus::duplicate_dead;
    }
    if (!something_new) return EnqueueStatus::duplicate;
    return leased ? EnqueueStatus::superseding : EnqueueStatus::updated;
  }

  // Gives content to a row that has none, and makes it claimable unless it is dead.
  void accept(QueueRow& row, const Message& message) {
    MessageState& state = row.state;
    row.content = Content{message.topic, message.payload, message.headers};
    if (message.hash) state.hash = message.hash;
    state.partition_key = message.partition_key;
    state.enqueue_order = table_.next_enqueue_order();
    state.history.content_version = 1;
    take_schedule(state, message);
    if (state.status != Status::dead) state.status = Status::processing;
    state.eligible_at = state.not_before(now_);
    table_.save_content(row);
  }

  // Takes the new values of a known message. Answers whether there is something new to hand out.
  bool update(QueueRow& row, const Message& message) {
    MessageState& state = row.state;
    const bool same_topic = row.content->topic == message.topic;
    const bool same = same_content(state.hash, row.content->payload, message);
    const bool first_hash = same && !state.hash && message.hash;
    if (!same || !state.hash) state.hash = message.hash;
    row.content->topic = message.topic;
    if (!same) {
      row.content->payload = message.payload;
      row.content->headers = message.headers;
    }
    if (!same || first_hash) table_.save_content(row);
    const bool something_new = !same || !same_topic;
    if (something_new) ++state.history.content_version;
    count_duplicate(state.history);
    take_schedule(state, message);
    if (state.status == Status::processing) reschedule(state, now_);
    return something_new;
  }

  // The newcomer is stored dead under an id of its own; the same content again is a duplicate
  // there.
  MessageId quarantine(const Message& message) {
    const Message copy = quarantined_copy(message);
    std::optional<QueueRow> known = table_.find(copy.key);
    if (known && (known->content || known->state.status == Status::done)) {
      table_.touch(known->id, now_, 1);
      return copy.key.message_id;
    }
    QueueRow row = known ? std::move(*known) : table_.insert_seen(copy.key, std::nullopt, now_);
    row.state.history.last_seen_at = now_;
    row.state.history.last_error = "content hash differs";
    finish(row.state, Status::dead, now_);
    accept(row, copy);
    table_.save(row);
    return copy.key.message_id;
  }

  QueueTable& table_;
  const TimePoint now_;
};

std::vector<EnqueueOutcome> SqliteQueue::do_enqueue(std::span<const Message> messages,
                                                    const EnqueueOptions& options) {
  for (const Message& message : messages) {
    if (message.payload.size() <= max_payload_bytes_) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a payload has {} bytes; this store takes at most {}",
                            message.payload.size(), max_payload_bytes_));
  }
  auto outcomes = write(Flush::required, [&](TimePoint now) {
    Intake intake(table_, now);
    std::vector<EnqueueOutcome> answers;
    answers.reserve(messages.size());
    for (const Message& message : messages) answers.push_back(intake.enqueue(message, options));
    return answers;
  });
  if (std::any_of(outcomes.begin(), outcomes.end(), brings_work)) listeners_.notify();
  return outcomes;
}

std::vector<ObserveOutcome> SqliteQueue::do_observe(std::span<const Observation> observations) {
  return write(Flush::required, [&](TimePoint now) {
    Intake intake(table_, now);
    std::vector<ObserveOutcome> outcomes;
    outcomes.reserve(observations.size());
    for (const Observation& observation : observations) {
      outcomes.push_back(intake.observe(observation));
    }
    return outcomes;
  });
}

}  // namespace oncebox::sqlite
