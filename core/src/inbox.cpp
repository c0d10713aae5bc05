#include "oncebox/inbox.hpp"

#include <limits>

namespace oncebox {

namespace {

/// Whether the message is in the state that was asked for.
bool holds(MarkOutcome outcome) {
  return outcome == MarkOutcome::marked || outcome == MarkOutcome::already;
}

}  // namespace

Inbox::Inbox(QueueStore& store, const InboxOptions& options, const Surroundings& surroundings)
    : Inbox(store, options, surroundings, std::numeric_limits<std::size_t>::max()) {}

Inbox::Inbox(Store& store, const InboxOptions& options, const Surroundings& surroundings)
    : Inbox(store.inbox(), options, surroundings, store.capabilities().max_payload_bytes) {}

Inbox::Inbox(QueueStore& store, const InboxOptions& options, const Surroundings& surroundings,
             std::size_t max_payload_bytes)
    : intake_(store,
              {.name = options.name,
               .queue = QueueKind::inbox,
               .enqueue = options.enqueue,
               .missing_hash = options.missing_hash,
               .group_commit = options.group_commit,
               .max_payload_bytes = max_payload_bytes},
              surroundings) {}

bool Inbox::already_processed(const MessageKey& key, const std::optional<ContentHash>& hash,
                              const CallOptions& call) {
  return observe(key, hash, call).already_processed();
}

ObserveOutcome Inbox::observe(const MessageKey& key, const std::optional<ContentHash>& hash,
                              const CallOptions& call) {
  return queue().observe({.key = key, .hash = hash}, call);
}

bool Inbox::mark_processing(const MessageKey& key, const CallOptions& call) {
  return holds(mark({.key = key, .as = MarkAs::processing}, call));
}

bool Inbox::mark_processed(const MessageKey& key, const CallOptions& call) {
  return holds(mark({.key = key, .as = MarkAs::processed}, call));
}

bool Inbox::mark_dead(const MessageKey& key, std::string error, const CallOptions& call) {
  return holds(mark({.key = key, .as = MarkAs::dead, .error = std::move(error)}, call));
}

MarkOutcome Inbox::mark(const Mark& mark, const CallOptions& call) {
  return queue().mark(mark, call);
}

EnqueueOutcome Inbox::enqueue(Message message, const CallOptions& call) {
  return intake_.enqueue(std::move(message), call);
}

std::future<EnqueueOutcome> Inbox::enqueue_future(Message message) {
  return intake_.enqueue_future(std::move(message));
}

std::vector<Inbox::EnqueueResult> Inbox::enqueue_each(std::vector<Message> messages,
                                                      const CallOptions& call) {
  return intake_.enqueue_each(std::move(messages), call);
}

std::vector<EnqueueOutcome> Inbox::enqueue(std::vector<Message> messages, const CallOptions& call) {
  return intake_.enqueue(std::move(messages), call);
}

EnqueueOutcome Inbox::enqueue(Message message, Transaction& transaction) {
  return intake_.enqueue(std::move(message), transaction);
}

std::vector<EnqueueOutcome> Inbox::enqueue(std::vector<Message> messages,
                                           Transaction& transaction) {
  return intake_.enqueue(std::move(messages), transaction);
}

}  // namespace oncebox
