#include "fair_ready_queue.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "in_flight.hpp"

namespace oncebox::dispatcher {

FairReadyQueue::FairReadyQueue(std::size_t capacity) {
  heap_.reserve(capacity);
  rest_.reserve(capacity);
}

bool FairReadyQueue::is_behind(const Waiting& a, const Waiting& b) noexcept {
  return a.place != b.place ? a.place > b.place : a.arrival > b.arrival;
}

bool FairReadyQueue::push(std::span<InFlight* const> messages) {
  std::size_t wakes = 0;
  {
    const detail::Lock lock(mutex_);
    if (closed_) return false;
    try {
      const std::size_t needed = heap_.size() + messages.size();
      if (needed > heap_.capacity()) heap_.reserve(2 * needed);
      rest_.reserve(heap_.capacity());
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (InFlight* message : messages) {
      heap_.push_back({message->place, ++arrivals_, message});
      std::ranges::push_heap(heap_, is_behind);
      ++message->origin->waiting;
    }
    size_ = heap_.size();
    wakes = std::min(messages.size(), waiting_workers_);
  }
  for (std::size_t i = 0; i < wakes; ++i) filled_.notify_one();
  return true;
}

InFlight* FairReadyQueue::pop_locked() noexcept {
  if (heap_.empty()) return nullptr;
  std::ranges::pop_heap(heap_, is_behind);
  const Waiting first = heap_.back();
  heap_.pop_back();
  size_ = heap_.size();
  served_ = std::max(served_.load(), first.place);
  --first.message->origin->waiting;
  return first.message;
}

InFlight* FairReadyQueue::try_pop() noexcept {
  const detail::Lock lock(mutex_);
  return pop_locked();
}

InFlight* FairReadyQueue::pop(const std::function<void()>& on_wait) {
  const detail::Lock lock(mutex_);
  InFlight* message = pop_locked();
  if (message != nullptr || closed_) return message;
  ++waiting_workers_;
  on_wait();
  while ((message = pop_locked()) == nullptr && !closed_) filled_.wait(mutex_);
  --waiting_workers_;
  return message;
}

std::vector<InFlight*> FairReadyQueue::extract(const std::function<bool(const InFlight&)>& chosen) {
  std::vector<InFlight*> extracted;
  const detail::Lock lock(mutex_);
  extracted.reserve(heap_.size());
  std::erase_if(heap_, [&](const Waiting& waiting) {
    if (!chosen(*waiting.message)) return false;
    extracted.push_back(waiting.message);
    return true;
  });
  std::ranges::make_heap(heap_, is_behind);
  size_ = heap_.size();
  for (InFlight* message : extracted) --message->origin->waiting;
  return extracted;
}

std::vector<InFlight*> FairReadyQueue::close() noexcept {
  const detail::Lock lock(mutex_);
  closed_ = true;
  while (InFlight* message = pop_locked()) rest_.push_back(message);
  filled_.notify_all();
  return std::exchange(rest_, {});
}

}  // namespace oncebox::dispatcher
