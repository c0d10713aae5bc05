#include "oncebox/transaction.hpp"

#include "valid_calls.hpp"

namespace oncebox {

std::string_view to_string(QueueKind queue) noexcept {
  switch (queue) {
    case QueueKind::inbox:
      return "inbox";
    case QueueKind::outbox:
      return "outbox";
    case QueueKind::deliveries:
      return "deliveries";
  }
  return "";
}

std::optional<QueueKind> queue_kind(std::string_view word) noexcept {
  for (const QueueKind queue : kQueueKinds) {
    if (word == to_string(queue)) return queue;
  }
  return std::nullopt;
}

std::vector<EnqueueOutcome> Transaction::enqueue(QueueKind queue, std::span<const Message> messages,
                                                 const EnqueueOptions& options) {
  require_valid_batch(messages);
  if (messages.empty()) return {};
  return do_enqueue(queue, messages, options);
}

EnqueueOutcome Transaction::enqueue(QueueKind queue, const Message& message,
                                    const EnqueueOptions& options) {
  return enqueue(queue, std::span(&message, 1), options).front();
}

}  // namespace oncebox
