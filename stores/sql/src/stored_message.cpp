#include "oncebox/sql/stored_message.hpp"

#include <utility>

#include "oncebox/limits.hpp"

namespace oncebox::sql {

Message to_message(const StoredMessage& stored) {
  const MessageState& state = stored.state;
  return {.key = stored.key,
          .topic = stored.content->topic,
          .payload = stored.content->payload,
          .headers = stored.content->headers,
          .hash = state.hash,
          .priority = state.priority,
          .partition_key = state.partition_key,
          .due_at = state.due_at,
          .expires_at = state.expires_at};
}

ShownState shown_state(const StoredMessage& stored, std::span<const TopicPattern> paused,
                       TimePoint now) {
  const ShownState shown = oncebox::shown_state(stored.state, stored.place, now);
  if (shown.state != State::ready || !is_paused(paused, stored.content->topic.str())) return shown;
  return while_paused(shown);
}

bool matches(const MessageFilter& filter, const StoredMessage& stored,
             std::span<const TopicPattern> paused, TimePoint now) {
  const ShownState shown = shown_state(stored, paused, now);
  const std::optional<PartitionKey>& partition_key = stored.state.partition_key;
  return filter.matches(
      MessageFilter::Subject{.key = stored.key,
                             .state = shown.state,
                             .waiting_for = shown.waiting_for,
                             .topic = stored.content ? &stored.content->topic : nullptr,
                             .partition_key = partition_key ? &*partition_key : nullptr,
                             .history = stored.state.history,
                             .finished_at = stored.state.finished_at,
                             .expires_at = stored.state.expires_at});
}

MessageRecord to_record(const StoredMessage& stored, std::span<const TopicPattern> paused,
                        TimePoint now) {
  const MessageState& state = stored.state;
  const ShownState shown = shown_state(stored, paused, now);
  MessageRecord record{.key = stored.key,
                       .status = state.status,
                       .state = shown.state,
                       .waiting_for = shown.waiting_for,
                       .hash = state.hash,
                       .history = state.history,
                       .lease = state.lease,
                       .finished_at = state.finished_at,
                       .revivals = state.revivals};
  if (!stored.content) return record;
  record.message = to_message(stored);
  if (state.status == Status::processing && !state.lease) record.eligible_at = state.eligible_at;
  return record;
}

ClaimedMessage take_claimed(StoredMessage& stored) {
  MessageState& state = stored.state;
  return {.message = {.key = std::move(stored.key),
                      .topic = std::move(stored.content->topic),
                      .payload = std::move(stored.content->payload),
                      .headers = std::move(stored.content->headers),
                      .hash = std::move(state.hash),
                      .priority = state.priority,
                      .partition_key = std::move(state.partition_key),
                      .due_at = state.due_at,
                      .expires_at = state.expires_at},
          .history = std::move(state.history),
          .owner = state.lease->owner,
          .delivery = state.lease->delivery,
          .locked_until = state.lease->locked_until,
          .eligible_at = state.eligible_at,
          .revived_at = state.revivals.last_at};
}

void revive(MessageState& state, const ReviveOptions& options, TimePoint now) {
  revive_after(state, options.delay, clip_text(options.reason, limits::kMaxReasonBytes), now);
}

PastContent revive_edited(StoredMessage& stored, const Payload& payload,
                          const ReviveOptions& options, TimePoint now) {
  PastContent past{.content_version = stored.state.history.content_version,
                   .payload = std::exchange(stored.content->payload, payload),
                   .hash = stored.state.hash,
                   .replaced_at = now,
                   .replaced_by = clip_text(options.actor, limits::kMaxActorBytes),
                   .reason = clip_text(options.reason, limits::kMaxReasonBytes)};
  take_edit(stored.state, ContentHash::sha256_of(payload));
  revive(stored.state, options, now);
  return past;
}

}  // namespace oncebox::sql
