#pragma once

#include <optional>
#include <utility>

#include "oncebox/driver/message_state.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/sql/stored_message.hpp"

namespace oncebox::sql {

/// What enqueue and observe do to a message whose key may be known (decision 0004), for the stores
/// that read a row, decide, and write it back inside a transaction. `Rows` has
/// - `find(key)`: the row, or nothing; an optional or a pointer to something derived from
///   `StoredMessage`;
/// - `add_seen(key, hash, now)`: the same for a key that is not there, stored as seen;
/// - `save(row)`, `save_content(row)` and `save_hash(row)`: write the state back, or payload,
///   headers and hash, or only the hash;
/// - `touch(row, now, duplicates)`: notes that a known key came again, and changes nothing else;
/// - `has_payload_of(row, message)`: whether the payload of the row, which has content, is the
///   message's; asked where their hashes do not tell. The payload itself need not have been read;
/// - `next_enqueue_order()`.
template <class Rows>
class Intake {
 public:
  Intake(Rows& rows, TimePoint now) : rows_(rows), now_(now) {}

  /// Enqueues a message whose key is known as `row`.
  template <class Row>
  EnqueueOutcome enqueue_again(Row& row, const Message& message, const EnqueueOptions& options) {
    EnqueueOutcome outcome{.hash_mismatch = hashes_differ(row.state.hash, message.hash)};
    const bool keeps_first = options.on_hash_mismatch == HashMismatchPolicy::keep_first;
    const bool is_other = outcome.hash_mismatch || (keeps_first && has_other_content(row, message));
    if (is_other && options.on_hash_mismatch != HashMismatchPolicy::warn) {
      if (options.on_hash_mismatch == HashMismatchPolicy::quarantine) {
        quarantine(message, outcome);
      } else {
        outcome.status = EnqueueStatus::rejected;
      }
      rows_.touch(row, now_, 0);
      return outcome;
    }
    outcome.status = take_again(row, message, options);
    return outcome;
  }

  /// `paused()` answers the patterns of the paused topics; it is asked when that matters.
  template <class Paused>
  ObserveOutcome observe(const Observation& observation, Paused paused) {
    auto known = rows_.find(observation.key);
    if (!known) {
      rows_.add_seen(observation.key, observation.hash, now_);
      return {};
    }
    ShownState shown = oncebox::shown_state(known->state, known->place, now_);
    if (shown.state == State::ready) shown = sql::shown_state(*known, paused(), now_);
    const ObserveOutcome outcome{
        .state = observed_state(shown.state),
        .hash_mismatch = hashes_differ(known->state.hash, observation.hash)};
    if (observation.hash && !known->state.hash) {
      known->state.hash = observation.hash;
      rows_.save_hash(*known);
    }
    rows_.touch(*known, now_, 0);
    return outcome;
  }

 private:
  template <class Row>
  EnqueueStatus take_again(Row& row, const Message& message, const EnqueueOptions& options) {
    const Status status = row.state.status;
    if (status == Status::done || (row.content && stays_as_first(status, options))) {
      rows_.touch(row, now_, 1);
      return duplicate_status(status);
    }
    row.state.history.last_seen_at = now_;
    bool something_new = true;
    if (row.content) {
      something_new = update(row, message);
    } else {
      accept(row, message);
      if (status != Status::dead) {
        rows_.save(row);
        return EnqueueStatus::accepted;
      }
      count_duplicate(row.state.history);
    }
    const bool leased = row.state.lease && row.state.lease->live_at(now_);
    if (status == Status::dead && options.on_dead == DeadPolicy::revive) {
      bring_back(row.state, row.state.not_before(now_), "enqueued again", now_);
    }
    rows_.save(row);
    if (status == Status::dead) {
      return options.on_dead == DeadPolicy::revive ? EnqueueStatus::revived
                                                   : EnqueueStatus::duplicate_dead;
    }
    if (!something_new) return EnqueueStatus::duplicate;
    return leased ? EnqueueStatus::superseding : EnqueueStatus::updated;
  }

  template <class Row>
  bool has_other_content(const Row& row, const Message& message) {
    return row.content && (row.content->topic != message.topic || !has_same_payload(row, message));
  }

  template <class Row>
  bool has_same_payload(const Row& row, const Message& message) {
    const std::optional<bool> by_hash = same_by_hash(row.state.hash, message);
    return by_hash ? *by_hash : rows_.has_payload_of(row, message);
  }

  // Gives content to a row that has none, and makes it claimable unless it is dead.
  template <class Row>
  void accept(Row& row, const Message& message) {
    MessageState& state = row.state;
    row.content = Content{message.topic, message.payload, message.headers};
    if (message.hash) state.hash = message.hash;
    state.partition_key = message.partition_key;
    state.enqueue_order = rows_.next_enqueue_order();
    state.history.content_version = 1;
    take_schedule(state, message);
    if (state.status != Status::dead) state.status = Status::processing;
    state.eligible_at = state.not_before(now_);
    rows_.save_content(row);
  }

  // Takes the new values of a known message. Answers whether there is something new to hand out.
  template <class Row>
  bool update(Row& row, const Message& message) {
    MessageState& state = row.state;
    const bool same_topic = row.content->topic == message.topic;
    const bool same = has_same_payload(row, message);
    const bool first_hash = same && !state.hash && message.hash;
    if (!same || !state.hash) state.hash = message.hash;
    row.content->topic = message.topic;
    if (!same) {
      row.content->payload = message.payload;
      row.content->headers = message.headers;
    }
    if (!same) {
      rows_.save_content(row);
    } else if (first_hash) {
      rows_.save_hash(row);
    }
    const bool something_new = !same || !same_topic;
    if (something_new) ++state.history.content_version;
    count_duplicate(state.history);
    take_schedule(state, message);
    if (state.status == Status::processing) reschedule(state, now_);
    return something_new;
  }

  // The newcomer is stored dead under an id of its own; the same content again is a duplicate
  // there.
  void quarantine(const Message& message, EnqueueOutcome& outcome) {
    const Message copy = quarantined_copy(message);
    outcome.status = EnqueueStatus::quarantined;
    outcome.quarantined_as = copy.key.message_id;
    auto known = rows_.find(copy.key);
    if (known && (known->content || known->state.status == Status::done)) {
      rows_.touch(*known, now_, 1);
      return;
    }
    if (!known) known = rows_.add_seen(copy.key, std::nullopt, now_);
    auto& row = *known;
    outcome.newly_dead = row.state.status != Status::dead;
    row.state.history.last_seen_at = now_;
    row.state.history.last_error = "content hash differs";
    finish(row.state, Status::dead, now_);
    accept(row, copy);
    rows_.save(row);
  }

  Rows& rows_;
  const TimePoint now_;
};

}  // namespace oncebox::sql
