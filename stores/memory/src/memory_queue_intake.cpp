#include <fmt/format.h>

#include <algorithm>

#include "intake_batch.hpp"
#include "memory_queue.hpp"
#include "oncebox/error.hpp"

namespace oncebox::memory {

std::size_t bytes_of(const MessageKey& key) noexcept {
  return key.source.str().size() + key.message_id.str().size();
}

std::size_t bytes_of(const Content& content) noexcept {
  return content.topic.str().size() + content.payload.size() + bytes_of(content.headers);
}

void MemoryQueue::Rows::require_room(std::size_t new_rows, std::size_t new_bytes,
                                     std::size_t freed_bytes) const {
  if (index.size() + new_rows > options.max_messages) {
    throw Error(ErrorCode::overloaded,
                fmt::format("the memory store holds its limit of {} messages; clean up finished "
                            "ones or raise max_messages",
                            options.max_messages));
  }
  if (bytes - freed_bytes + new_bytes > options.max_bytes) {
    throw Error(ErrorCode::overloaded,
                fmt::format("the memory store holds its limit of {} bytes; clean up finished "
                            "messages or raise max_bytes",
                            options.max_bytes));
  }
}

std::vector<EnqueueOutcome> MemoryQueue::do_enqueue(std::span<const Message> messages,
                                                    const EnqueueOptions& options) {
  for (const Message& message : messages) require_payload_size(message.payload);
  std::vector<EnqueueOutcome> outcomes;
  outcomes.reserve(messages.size());

  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    IntakeBatch batch(rows_, now, messages.size());
    for (const Message& message : messages) outcomes.push_back(batch.enqueue(message, options));
    batch.commit();
  }
  if (std::any_of(outcomes.begin(), outcomes.end(), brings_work)) listeners_.notify();
  return outcomes;
}

std::vector<ObserveOutcome> MemoryQueue::do_observe(std::span<const Observation> observations) {
  std::vector<ObserveOutcome> outcomes;
  outcomes.reserve(observations.size());

  const detail::Lock lock(mutex_);
  const TimePoint now = read_clock();
  IntakeBatch batch(rows_, now, observations.size());
  for (const Observation& observation : observations) {
    outcomes.push_back(batch.observe(observation, policies_.paused()));
  }
  batch.commit();
  return outcomes;
}

}  // namespace oncebox::memory
