#include "ready_queue.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace oncebox::dispatcher {

ReadyQueue::ReadyQueue(std::size_t capacity) : slots_(std::bit_ceil(capacity)) {
  rest_.reserve(slots_.size());
}

std::size_t ReadyQueue::size() const noexcept {
  const std::uint64_t head = head_.load();  // first: it never passes the tail read after it
  return static_cast<std::size_t>(tail_.load() - head);
}

bool ReadyQueue::push(std::span<InFlight* const> messages) {
  const detail::Lock lock(mutex_);
  if (closed_) return false;
  push_locked(messages);
  return true;
}

void ReadyQueue::push_locked(std::span<InFlight* const> messages) noexcept {
  std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  for (InFlight* message : messages) {
    slots_[tail & (slots_.size() - 1)].store(message, std::memory_order_relaxed);
    ++tail;
  }
  tail_.store(tail);
  const std::size_t wakes = std::min(messages.size(), waiting_);
  for (std::size_t i = 0; i < wakes; ++i) filled_.notify_one();
}

InFlight* ReadyQueue::try_pop() noexcept {
  std::uint64_t head = head_.load();
  while (head != tail_.load()) {
    InFlight* message = slots_[head & (slots_.size() - 1)].load(std::memory_order_relaxed);
    if (head_.compare_exchange_weak(head, head + 1)) return message;
  }
  return nullptr;
}

InFlight* ReadyQueue::pop(const std::function<void()>& on_wait) {
  const detail::Lock lock(mutex_);
  InFlight* message = try_pop();
  if (message != nullptr || closed_) return message;
  ++waiting_;
  on_wait();
  while ((message = try_pop()) == nullptr && !closed_) filled_.wait(mutex_);
  --waiting_;
  return message;
}

std::size_t ReadyQueue::idle() const {
  const detail::Lock lock(mutex_);
  return waiting_ - std::min(size(), waiting_);
}

std::vector<InFlight*> ReadyQueue::extract(const std::function<bool(const InFlight&)>& chosen) {
  std::vector<InFlight*> extracted;
  std::vector<InFlight*> kept;
  // Reserved before the first is taken out: a message for which memory runs out would be lost.
  extracted.reserve(slots_.size());
  kept.reserve(slots_.size());
  const detail::Lock lock(mutex_);
  while (InFlight* message = try_pop()) {
    (chosen(*message) ? extracted : kept).push_back(message);
  }
  push_locked(kept);
  return extracted;
}

std::vector<InFlight*> ReadyQueue::close() noexcept {
  const detail::Lock lock(mutex_);
  closed_ = true;
  while (InFlight* message = try_pop()) rest_.push_back(message);
  filled_.notify_all();
  return std::exchange(rest_, {});
}

}  // namespace oncebox::dispatcher
