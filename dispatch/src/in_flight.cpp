#include "in_flight.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace oncebox::dispatcher {

InFlightTable::InFlightTable(std::size_t capacity, const Clock& clock)
    : capacity_(capacity), quiet_(clock) {}

InFlight* InFlightTable::find(const MessageKey& key, std::size_t hash) const noexcept {
  InFlight* message = buckets_[hash & (buckets_.size() - 1)];
  while (message != nullptr && (message->hash_ != hash || message->claimed->message.key != key)) {
    message = message->next_in_bucket_;
  }
  return message;
}

void InFlightTable::insert(InFlight& message) noexcept {
  InFlight*& bucket = buckets_[message.hash_ & (buckets_.size() - 1)];
  message.next_in_bucket_ = std::exchange(bucket, &message);
}

void InFlightTable::erase(InFlight& message) noexcept {
  InFlight** link = &buckets_[message.hash_ & (buckets_.size() - 1)];
  while (*link != &message) link = &(*link)->next_in_bucket_;
  *link = message.next_in_bucket_;
}

// Takes all the memory that is needed until these are let go.
void InFlightTable::make_unused(std::size_t count) {
  const std::size_t all = std::max(all_.size(), size_ + count);
  if (all > unused_.capacity()) unused_.reserve(std::bit_ceil(all));
  if (2 * all > buckets_.size()) grow_buckets(std::bit_ceil(2 * all));
  while (unused_.size() < count) unused_.push_back(&all_.emplace_back());
}

void InFlightTable::grow_buckets(std::size_t count) {
  std::vector<InFlight*> before(count);
  before.swap(buckets_);
  for (InFlight* message : before) {
    while (message != nullptr) insert(*std::exchange(message, message->next_in_bucket_));
  }
}

std::vector<InFlight*> InFlightTable::admit(std::vector<ClaimedMessage>&& claimed,
                                            TimePoint lease_until) {
  std::vector<InFlight*> admitted;
  admitted.reserve(claimed.size());
  const detail::Lock lock(mutex_);
  make_unused(claimed.size());  // before anything changes: afterwards nothing can fail
  for (ClaimedMessage& message : claimed) {
    const std::size_t hash = std::hash<MessageKey>{}(message.message.key);
    if (InFlight* known = find(message.message.key, hash); known != nullptr) {
      known->newer_ = {message.delivery, message.history.content_version};
      const int known_version = known->claimed->history.content_version;
      // What no handler has begun with need not be begun with: there is something newer.
      if (known->stage == InFlight::Stage::buffered &&
          known->newer_->content_version != known_version) {
        known->lease_lost = true;
      }
      known->renewed_in_round_ = round_;
      known->lease_until = lease_until;
      admitted.push_back(nullptr);
      continue;
    }
    InFlight& added = *unused_.back();
    unused_.pop_back();
    added.bytes = bytes_of(message);
    added.claimed.emplace(std::move(message));
    added.hash_ = hash;
    added.stage.store(InFlight::Stage::buffered, std::memory_order_relaxed);
    added.lease_lost.store(false, std::memory_order_relaxed);
    added.lease_until.store(lease_until, std::memory_order_relaxed);
    added.is_recorded = false;
    added.may_be_recorded = false;
    added.renewed_in_round_ = round_;
    insert(added);
    size_.fetch_add(1);
    admitted.push_back(&added);
  }
  return admitted;
}

void InFlightTable::address(std::span<InFlight* const> messages,
                            std::vector<Settlement>& settlements) {
  const detail::Lock lock(mutex_);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const InFlight& message = *messages[i];
    const ClaimedMessage& claimed = *message.claimed;
    // An element of the batch before is overwritten: its texts need no new memory.
    if (i == settlements.size()) settlements.push_back({delivery_of(claimed), Ack{}});
    Settlement& settlement = settlements[i];
    settlement.delivery.key = claimed.message.key;
    settlement.delivery.owner = claimed.owner;
    settlement.delivery.number = claimed.delivery;
    settlement.verdict = message.verdict;
    if (!message.newer_) continue;
    settlement.delivery.number = message.newer_->number;
    const bool same_content = message.newer_->content_version == claimed.history.content_version;
    if (!same_content || message.may_be_recorded) settlement.verdict = Release{};
  }
}

std::vector<InFlight*> InFlightTable::release(std::span<InFlight* const> messages,
                                              std::span<const Settlement> settlements) {
  std::vector<InFlight*> again;
  again.reserve(messages.size());  // nothing may fail half-way
  const detail::Lock lock(mutex_);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    InFlight& message = *messages[i];
    if (message.newer_ && message.newer_->number != settlements[i].delivery.number) {
      again.push_back(&message);
      continue;
    }
    erase(message);
    message.claimed.reset();
    message.newer_.reset();
    message.origin = nullptr;
    message.route = nullptr;
    message.verdict = Ack{};
    unused_.push_back(&message);
    size_.fetch_sub(1);
  }
  wake_if_quiet();
  return again;
}

std::vector<Renewal> InFlightTable::due_for_renewal(unsigned rounds, Duration lease,
                                                    std::vector<LeaseExtension>& extensions) {
  std::vector<Renewal> due;
  const detail::Lock lock(mutex_);
  round_ += rounds;
  for (InFlight* message : buckets_) {
    for (; message != nullptr; message = message->next_in_bucket_) {
      if (message->lease_lost && !message->newer_) continue;
      if (round_ - message->renewed_in_round_ < 2) continue;
      Delivery delivery = delivery_of(*message->claimed);
      if (message->newer_) delivery.number = message->newer_->number;
      due.push_back({message, *delivery.number});
      extensions.push_back({std::move(delivery), lease});
    }
  }
  return due;
}

std::vector<std::size_t> InFlightTable::renewed(std::span<const Renewal> renewals,
                                                std::span<const ExtendOutcome> outcomes,
                                                TimePoint lease_until) {
  std::vector<std::size_t> lost;
  const detail::Lock lock(mutex_);
  for (std::size_t i = 0; i < renewals.size(); ++i) {
    InFlight& message = *renewals[i].message;
    // Meanwhile it may have ended, been used for another message, or come again. Numbers are given
    // once, so the same number is the same delivery.
    if (!message.claimed) continue;
    const DeliveryNumber newest =
        message.newer_ ? message.newer_->number : message.claimed->delivery;
    if (newest != renewals[i].number) continue;
    if (outcomes[i].locked_until) {
      message.renewed_in_round_ = round_;
      message.lease_until = lease_until;
    } else if (message.stage != InFlight::Stage::finished) {
      // A finished one was perhaps settled just now; if not, its settlement will tell.
      message.lease_lost = true;
      lost.push_back(i);
    }
  }
  return lost;
}

void InFlightTable::hold() noexcept {
  const detail::Lock lock(mutex_);
  ++holds_;
}

void InFlightTable::unhold() noexcept {
  const detail::Lock lock(mutex_);
  --holds_;
  wake_if_quiet();
}

void InFlightTable::wake_if_quiet() noexcept {
  if (has_nothing()) quiet_.notify_all();
}

bool InFlightTable::wait_quiet_until(SteadyTime deadline) {
  const detail::Lock lock(mutex_);
  bool in_time = true;
  while (!has_nothing() && in_time) in_time = quiet_.wait_until(mutex_, deadline);
  return has_nothing();
}

bool InFlightTable::is_quiet() const {
  const detail::Lock lock(mutex_);
  return has_nothing();
}

}  // namespace oncebox::dispatcher
