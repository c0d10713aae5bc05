#include "oncebox/transaction.hpp"

#include "message_batch.hpp"

namespace oncebox {

std::string_view to_string(QueueKind queue) noexcept {
  return queue == QueueKind::inbox ? "inbox" : "outbox";
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
