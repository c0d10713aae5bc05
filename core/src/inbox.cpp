#include "oncebox/inbox.hpp"

#include <fmt/format.h>

#include <limits>
#include <span>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

std::size_t size_in_bytes(const Message& message) {
  std::size_t bytes = sizeof(Message) + message.payload.size() + message.topic.str().size() +
                      message.key.source.str().size() + message.key.message_id.str().size();
  for (const auto& [name, value] : message.headers) bytes += name.size() + value.size();
  return bytes;
}

/// For an inbox that nobody listens to. Nothing in it has a state, so all of them may share it.
struct Silence {
  NullLogger logger;
  Observer observer;
  SystemClock clock;
};

Silence& silence() {
  static Silence shared;
  return shared;
}

}  // namespace

Inbox::Inbox(QueueStore& store, const InboxOptions& options, Logger& logger, Observer& observer,
             const Clock& clock)
    : Inbox(store, options, logger, observer, clock, std::numeric_limits<std::size_t>::max()) {}

Inbox::Inbox(Store& store, const InboxOptions& options, Logger& logger, Observer& observer,
             const Clock& clock)
    : Inbox(store.inbox(), options, logger, observer, clock,
            store.capabilities().max_payload_bytes) {}

Inbox::Inbox(Store& store, const InboxOptions& options)
    : Inbox(store, options, silence().logger, silence().observer, silence().clock) {}

Inbox::Inbox(QueueStore& store, const InboxOptions& options, Logger& logger, Observer& observer,
             const Clock& clock, std::size_t max_payload_bytes)
    : enqueue_options_(options.enqueue),
      missing_hash_(options.missing_hash),
      max_payload_bytes_(max_payload_bytes),
      queue_(store, options.name, logger, observer, clock),
      singles_(
          [this](std::span<const Message> batch) -> std::vector<EnqueueOutcome> {
            return queue_.enqueue(batch, enqueue_options_);
          },
          options.group_commit, size_in_bytes) {}

bool Inbox::already_processed(const MessageKey& key, const std::optional<ContentHash>& hash) {
  return observe(key, hash).already_processed();
}

ObserveOutcome Inbox::observe(const MessageKey& key, const std::optional<ContentHash>& hash) {
  return queue_.observe({.key = key, .hash = hash});
}

bool Inbox::mark_processing(const MessageKey& key) {
  return mark({.key = key, .as = MarkAs::processing}) == MarkOutcome::marked;
}

bool Inbox::mark_processed(const MessageKey& key) {
  return mark({.key = key, .as = MarkAs::processed}) == MarkOutcome::marked;
}

bool Inbox::mark_dead(const MessageKey& key, std::string error) {
  return mark({.key = key, .as = MarkAs::dead, .error = std::move(error)}) == MarkOutcome::marked;
}

MarkOutcome Inbox::mark(const Mark& mark) { return queue_.mark(mark); }

EnqueueOutcome Inbox::enqueue(Message message) {
  prepare(message);
  return singles_.submit(std::move(message));
}

std::future<EnqueueOutcome> Inbox::enqueue_future(Message message) {
  prepare(message);
  return singles_.submit_future(std::move(message));
}

std::vector<Inbox::EnqueueResult> Inbox::enqueue_each(std::vector<Message> messages) {
  std::vector<Message> good;
  std::vector<std::optional<Error>> refusals(messages.size());
  good.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    try {
      prepare(messages[i]);
      good.push_back(std::move(messages[i]));
    } catch (const Error& error) {
      refusals[i] = error;
    }
  }
  std::vector<EnqueueResult> answered = singles_.submit_all(std::move(good));
  std::vector<EnqueueResult> results;
  results.reserve(refusals.size());
  auto next = answered.begin();
  for (std::optional<Error>& refusal : refusals) {
    results.push_back(refusal ? EnqueueResult(std::move(*refusal)) : std::move(*next++));
  }
  return results;
}

std::vector<EnqueueOutcome> Inbox::enqueue(std::vector<Message> messages) {
  for (Message& message : messages) prepare(message);
  return queue_.enqueue(messages, enqueue_options_);
}

void Inbox::prepare(Message& message) const {
  if (message.due_at) require_in_range("due time", *message.due_at);
  if (message.expires_at) require_in_range("expiry", *message.expires_at);
  if (message.payload.size() > max_payload_bytes_) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the payload has {} bytes; this store takes at most {}",
                            message.payload.size(), max_payload_bytes_));
  }
  if (!message.hash && missing_hash_ == MissingHash::sha256_of_payload) {
    message.hash = ContentHash::sha256_of(message.payload);
  }
}

}  // namespace oncebox
