#include "handouts.hpp"

#include <algorithm>
#include <iterator>

namespace oncebox::postgresql {

namespace {

// A process that never settles what it claims must not fill the memory.
constexpr std::size_t kMaxHandouts = 100'000;

}  // namespace

HeldRun::HeldRun(const sql::StoredMessage& first, std::int64_t last, std::int32_t leased_to)
    : first_id(first.id),
      last_id(last),
      delivery(static_cast<std::int64_t>(first.state.lease.value().delivery)),
      seen_at(first.state.history.last_seen_at),
      locked_until(first.state.lease->locked_until),
      priority(first.state.priority.value()),
      topic(first.content.value().topic.str()),
      leased_at(first.state.lease->leased_at.value()),
      worker(leased_to) {}

HeldRun HeldRun::part(std::int64_t first, std::int64_t last) const {
  HeldRun result = *this;
  result.first_id = first;
  result.last_id = last;
  result.delivery += first - first_id;
  return result;
}

void Handouts::remember(std::span<const sql::StoredMessage> claimed,
                        std::span<const HeldRun> runs) {
  const detail::Lock lock(mutex_);
  if (std::max(by_delivery_.size() + claimed.size(), runs_.size()) > kMaxHandouts) {
    by_delivery_.clear();
    runs_.clear();
  }
  for (const HeldRun& run : runs) {
    // Whatever it says of these messages is of an earlier delivery.
    runs_.erase(runs_.lower_bound(run.first_id), runs_.upper_bound(run.last_id));
    runs_.emplace(run.first_id, run);
  }
  for (const sql::StoredMessage& message : claimed) {
    Remembered remembered{.handout = {.id = message.id},
                          .key_hash = std::hash<MessageKey>{}(message.key)};
    const std::optional<PartitionKey>& partition = message.state.partition_key;
    if (partition) remembered.handout.partition = partition->str();
    remembered.handout.may_have_attempts = may_have_attempts(message.state);
    const auto delivery = static_cast<std::uint64_t>(message.state.lease->delivery);
    by_delivery_.insert_or_assign(delivery, std::move(remembered));
  }
}

std::optional<Handouts::Handout> Handouts::find(const Delivery& delivery) const {
  if (!delivery.number) return std::nullopt;
  const detail::Lock lock(mutex_);
  const auto known = by_delivery_.find(static_cast<std::uint64_t>(*delivery.number));
  if (known == by_delivery_.end()) return std::nullopt;
  if (known->second.key_hash != std::hash<MessageKey>{}(delivery.key)) return std::nullopt;
  return known->second.handout;
}

void Handouts::forget_all() {
  const detail::Lock lock(mutex_);
  by_delivery_.clear();
  runs_.clear();
}

void Handouts::forget(std::span<const Settlement> settlements) {
  const detail::Lock lock(mutex_);
  for (const Settlement& settlement : settlements) {
    const std::optional<DeliveryNumber>& number = settlement.delivery.number;
    if (number) by_delivery_.erase(static_cast<std::uint64_t>(*number));
  }
}

std::optional<HeldRun> Handouts::run_of(std::int64_t id) const {
  const detail::Lock lock(mutex_);
  auto next = runs_.upper_bound(id);
  if (next == runs_.begin()) return std::nullopt;
  const HeldRun& run = std::prev(next)->second;
  if (id > run.last_id) return std::nullopt;
  return run;
}

void Handouts::replace_run(const HeldRun& run, std::span<const HeldRun> rest) {
  const detail::Lock lock(mutex_);
  const auto known = runs_.find(run.first_id);
  const bool is_known = known != runs_.end() && known->second.delivery == run.delivery &&
                        known->second.last_id == run.last_id;
  if (!is_known) return;  // another thread has replaced it
  runs_.erase(known);
  for (const HeldRun& part : rest) runs_.emplace(part.first_id, part);
}

}  // namespace oncebox::postgresql
