#include "staged_messages.hpp"

#include <algorithm>

#include "intake_batch.hpp"

namespace oncebox::memory {

namespace {

// Whether a known message is leased at that moment makes no difference to what becomes of it.
bool replaces_content(EnqueueStatus status) noexcept {
  return status == EnqueueStatus::updated || status == EnqueueStatus::superseding;
}

bool holds_still(const EnqueueOutcome& told, const EnqueueOutcome& now) noexcept {
  if (told == now) return true;
  return told.hash_mismatch == now.hash_mismatch && replaces_content(told.status) &&
         replaces_content(now.status);
}

}  // namespace

std::vector<EnqueueOutcome> StagedMessages::enqueue(std::span<const Message> messages,
                                                    const EnqueueOptions& options) {
  for (const Message& message : messages) queue_.require_payload_size(message.payload);
  std::vector<EnqueueOutcome> outcomes = foresee(messages, options);
  stage(messages, options, outcomes);
  return outcomes;
}

std::vector<std::size_t> StagedMessages::earlier_of(std::span<const Message> messages) const {
  std::vector<std::size_t> earlier;
  for (const Message& message : messages) {
    const auto [first, last] = by_key_.equal_range(message.key);
    std::for_each(first, last, [&](const auto& entry) { earlier.push_back(entry.second); });
  }
  std::ranges::sort(earlier);
  const auto repeated = std::ranges::unique(earlier);
  earlier.erase(repeated.begin(), repeated.end());
  return earlier;
}

// Puts them into the queue, after those that came before them under the same keys, and takes all of
// them back: nobody else can look meanwhile.
std::vector<EnqueueOutcome> StagedMessages::foresee(std::span<const Message> messages,
                                                    const EnqueueOptions& options) {
  const std::vector<std::size_t> earlier = earlier_of(messages);
  std::vector<EnqueueOutcome> outcomes;
  outcomes.reserve(messages.size());
  const detail::Lock lock(queue_.mutex_);
  const TimePoint now = queue_.read_clock_in_transaction();
  MemoryQueue::IntakeBatch batch(queue_.rows_, now, earlier.size() + messages.size());
  for (const std::size_t one : earlier) batch.enqueue(staged_[one].message, staged_[one].options);
  for (const Message& message : messages) outcomes.push_back(batch.enqueue(message, options));
  return outcomes;
}

void StagedMessages::stage(std::span<const Message> messages, const EnqueueOptions& options,
                           std::span<const EnqueueOutcome> told) {
  const std::size_t first = staged_.size();
  try {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const MessageKey& key = messages[i].key;
      by_key_.emplace(key, staged_.size());
      if (told[i].quarantined_as) {
        by_key_.emplace(MessageKey{key.source, *told[i].quarantined_as}, staged_.size());
      }
      staged_.push_back({messages[i], options, told[i]});
    }
  } catch (...) {
    std::erase_if(by_key_, [first](const auto& entry) { return entry.second >= first; });
    staged_.erase(staged_.begin() + static_cast<std::ptrdiff_t>(first), staged_.end());
    throw;
  }
}

bool StagedMessages::put_into(MemoryQueue::IntakeBatch& batch) const {
  return std::ranges::all_of(staged_, [&](const Staged& one) {
    return holds_still(one.told, batch.enqueue(one.message, one.options));
  });
}

bool StagedMessages::brings_work() const noexcept {
  return std::ranges::any_of(staged_,
                             [](const Staged& one) { return oncebox::brings_work(one.told); });
}

}  // namespace oncebox::memory
