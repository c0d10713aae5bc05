#include "oncebox/outbox.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "oncebox/internal/outgoing_headers.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox {

namespace {

/// The ids, kept for the answer: the messages themselves are given away.
std::vector<OutboxReceipt> receipts_for(const std::vector<Message>& messages) {
  std::vector<OutboxReceipt> receipts;
  receipts.reserve(messages.size());
  for (const Message& message : messages) receipts.push_back({.id = message.key.message_id});
  return receipts;
}

/// A delivery that was given back untried is no attempt, so they are not the deliveries. Failures
/// are counted with the message, the last one too; a success is not.
int attempts_of(const MessageRecord& record) {
  const MessageHistory& history = record.history;
  const bool has_succeeded = record.status == Status::done;
  return has_succeeded ? std::min(history.deliveries, history.attempt + 1) : history.attempt;
}

std::vector<OutboxReceipt> filled_in(std::vector<OutboxReceipt> receipts,
                                     std::vector<EnqueueOutcome> outcomes) {
  for (std::size_t i = 0; i < receipts.size(); ++i) receipts[i].outcome = std::move(outcomes[i]);
  return receipts;
}

}  // namespace

void detail::stamp_outgoing(Message& message, TimePoint now) {
  Headers& headers = message.headers;
  if (!headers.message_id()) headers.set(header_names::kMessageId, message.key.message_id.str());
  if (!headers.get(header_names::kTimestamp)) headers.set_timestamp(now);
  if (message.partition_key && !headers.partition_key()) {
    headers.set(header_names::kPartitionKey, message.partition_key->str());
  }
}

void require_taken(std::span<const OutboxReceipt> receipts) {
  for (const OutboxReceipt& receipt : receipts) {
    const EnqueueOutcome& outcome = receipt.outcome;
    if (outcome.status == EnqueueStatus::rejected) {
      throw PermanentFailure("rejected: the outbox knows other content under the id " +
                             receipt.id.str());
    }
    if (outcome.status == EnqueueStatus::quarantined) {
      throw PermanentFailure("quarantined as " + outcome.quarantined_as.value().str() +
                             ": the outbox knows other content under the id " + receipt.id.str());
    }
  }
}

Outbox::Outbox(QueueStore& store, const OutboxOptions& options, const Surroundings& surroundings)
    : Outbox(store, options, surroundings, std::numeric_limits<std::size_t>::max()) {}

Outbox::Outbox(Store& store, const OutboxOptions& options, const Surroundings& surroundings)
    : Outbox(store.outbox(), options, surroundings, store.capabilities().max_payload_bytes) {}

Outbox::Outbox(QueueStore& store, const OutboxOptions& options, const Surroundings& surroundings,
               std::size_t max_payload_bytes)
    : source_(options.source),
      clock_(surroundings.clock),
      intake_(store,
              {.name = options.name,
               .queue = QueueKind::outbox,
               .enqueue = options.enqueue,
               .missing_hash = options.missing_hash,
               .group_commit = options.group_commit,
               .max_payload_bytes = max_payload_bytes},
              surroundings) {}

OutboxReceipt Outbox::enqueue(OutboxMessage message, const Cause& cause, const CallOptions& call) {
  Message ready = stamped(std::move(message), cause);
  MessageId id = ready.key.message_id;
  return {.id = std::move(id), .outcome = intake_.enqueue(std::move(ready), call)};
}

std::future<OutboxReceipt> Outbox::enqueue_future(OutboxMessage message, const Cause& cause) {
  Message ready = stamped(std::move(message), cause);
  std::promise<OutboxReceipt> promise;
  std::future<OutboxReceipt> future = promise.get_future();
  auto answer = [promise = std::move(promise),
                 id = ready.key.message_id](detail::Intake::Result result) mutable {
    if (result.ok()) {
      promise.set_value({.id = std::move(id), .outcome = std::move(result).outcome()});
    } else {
      promise.set_exception(std::make_exception_ptr(*result.error()));
    }
  };
  intake_.enqueue_then(std::move(ready), std::move(answer));
  return future;
}

std::vector<OutboxReceipt> Outbox::enqueue_all(std::vector<OutboxMessage> messages,
                                               const Cause& cause, const CallOptions& call) {
  std::vector<Message> ready = stamped(std::move(messages), cause);
  std::vector<OutboxReceipt> receipts = receipts_for(ready);
  return filled_in(std::move(receipts), intake_.enqueue(std::move(ready), call));
}

OutboxReceipt Outbox::enqueue(OutboxMessage message, Transaction& transaction, const Cause& cause) {
  Message ready = stamped(std::move(message), cause);
  MessageId id = ready.key.message_id;
  return {.id = std::move(id), .outcome = intake_.enqueue(std::move(ready), transaction)};
}

std::vector<OutboxReceipt> Outbox::enqueue_all(std::vector<OutboxMessage> messages,
                                               Transaction& transaction, const Cause& cause) {
  std::vector<Message> ready = stamped(std::move(messages), cause);
  std::vector<OutboxReceipt> receipts = receipts_for(ready);
  return filled_in(std::move(receipts), intake_.enqueue(std::move(ready), transaction));
}

std::optional<OutboxRecord> Outbox::find(const MessageId& id, const CallOptions& call) {
  std::optional<MessageRecord> found = queue().find(MessageKey{source_, id}, call);
  if (!found) return std::nullopt;
  const bool is_done = found->status == Status::done;
  return OutboxRecord{.id = id,
                      .status = found->status,
                      .attempts = attempts_of(*found),
                      .created_at = found->history.first_seen_at,
                      .dispatched_at = is_done ? found->finished_at : std::nullopt,
                      .last_error = std::move(found->history.last_error)};
}

Message Outbox::stamped(OutboxMessage message, const Cause& cause) const {
  const TimePoint now = clock_.now();
  MessageId id =
      message.id ? std::move(*message.id) : MessageId(Uuid::generate_v7(now).to_string());
  Message ready{.key = {source_, std::move(id)},
                .topic = std::move(message.topic),
                .payload = std::move(message.payload),
                .headers = caused_by(cause, std::move(message.headers)),
                .priority = message.priority,
                .partition_key = std::move(message.partition_key),
                .due_at = message.due_at,
                .expires_at = message.expires_at};
  detail::stamp_outgoing(ready, now);
  return ready;
}

std::vector<Message> Outbox::stamped(std::vector<OutboxMessage> messages,
                                     const Cause& cause) const {
  std::vector<Message> ready;
  ready.reserve(messages.size());
  for (OutboxMessage& message : messages) ready.push_back(stamped(std::move(message), cause));
  return ready;
}

}  // namespace oncebox
