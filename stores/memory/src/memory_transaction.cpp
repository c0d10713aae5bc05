#include "memory_transaction.hpp"

#include <utility>

#include "intake_batch.hpp"
#include "oncebox/error.hpp"

namespace oncebox::memory {

MemoryTransaction::MemoryTransaction(const MemoryQueues& queues)
    : inbox_(queues.inbox), outbox_(queues.outbox), deliveries_(queues.deliveries) {}

StagedMessages& MemoryTransaction::staged(QueueKind queue) noexcept {
  switch (queue) {
    case QueueKind::inbox:
      return to_inbox_;
    case QueueKind::outbox:
      return to_outbox_;
    case QueueKind::deliveries:
      break;
  }
  return to_deliveries_;
}

void MemoryTransaction::on_commit(std::function<void()> apply) {
  require_open();
  effects_.push_back(std::move(apply));
}

void MemoryTransaction::require_open() const {
  if (is_over_) throw Error(ErrorCode::conflict, "this transaction is over; begin another");
}

std::vector<EnqueueOutcome> MemoryTransaction::do_enqueue(QueueKind queue,
                                                          std::span<const Message> messages,
                                                          const EnqueueOptions& options) {
  require_open();
  return staged(queue).enqueue(messages, options);
}

// The locks are always taken in this order.
std::optional<SettleOutcome> MemoryTransaction::commit(
    const std::optional<Acknowledgement>& ended) {
  require_open();
  is_over_ = true;
  bool wakes_inbox = to_inbox_.brings_work();
  bool wakes_outbox = to_outbox_.brings_work();
  bool wakes_deliveries = to_deliveries_.brings_work();
  {
    const detail::Lock inbox_lock(inbox_.mutex_);
    const detail::Lock outbox_lock(outbox_.mutex_);
    const detail::Lock deliveries_lock(deliveries_.mutex_);
    const TimePoint inbox_now = inbox_.read_clock_in_transaction();
    const TimePoint outbox_now = outbox_.read_clock_in_transaction();
    const TimePoint deliveries_now = deliveries_.read_clock_in_transaction();
    MemoryQueue::IntakeBatch into_inbox(inbox_.rows_, inbox_now, to_inbox_.size());
    MemoryQueue::IntakeBatch into_outbox(outbox_.rows_, outbox_now, to_outbox_.size());
    MemoryQueue::IntakeBatch into_deliveries(deliveries_.rows_, deliveries_now,
                                             to_deliveries_.size());
    const bool holds = to_inbox_.put_into(into_inbox) && to_outbox_.put_into(into_outbox) &&
                       to_deliveries_.put_into(into_deliveries);
    if (!holds) return std::nullopt;
    SettleOutcome outcome;
    if (ended && ended->queue == QueueKind::inbox) {
      outcome = inbox_.acknowledge(ended->delivery, inbox_now, wakes_inbox);
    } else if (ended && ended->queue == QueueKind::outbox) {
      outcome = outbox_.acknowledge(ended->delivery, outbox_now, wakes_outbox);
    } else if (ended) {
      outcome = deliveries_.acknowledge(ended->delivery, deliveries_now, wakes_deliveries);
    }
    if (outcome != SettleStatus::settled) return outcome;
    into_inbox.commit();
    into_outbox.commit();
    into_deliveries.commit();
  }
  apply_effects();
  if (wakes_inbox) inbox_.listeners_.notify();
  if (wakes_outbox) outbox_.listeners_.notify();
  if (wakes_deliveries) deliveries_.listeners_.notify();
  return SettleOutcome{};
}

void MemoryTransaction::apply_effects() noexcept {
  for (const std::function<void()>& apply : effects_) apply();
}

SettleOutcome MemoryQueue::foreseen_acknowledgement(const Delivery& delivery, TimePoint now) {
  const Row* const row = find_delivery(delivery);
  if (row == nullptr) return {SettleStatus::lease_lost};
  RowState state = row->state;
  const ResolvedPolicy& policy = policies_.for_topic(row->content->topic.str());
  return apply_verdict(state, Ack{}, {}, policy, now);
}

SettleOutcome MemoryQueue::acknowledge(const Delivery& delivery, TimePoint now,
                                       bool& may_be_claimable) {
  const SettleOutcome foreseen = foreseen_acknowledgement(delivery, now);
  if (foreseen != SettleStatus::settled) return foreseen;
  const Settlement settlement{delivery, Ack{}};
  PreparedEnd prepared = prepare(settlement, now);
  may_be_claimable |= prepared.row->partition != nullptr || policies_.limits_concurrency();
  return settle_one(std::move(prepared), settlement, now);
}

// The work runs again when calls of others made untrue what it was told. At least one of those
// others has got through each time, so it ends.
SettleOutcome MemoryQueue::acknowledge_with(const Delivery& delivery, const Work& work) {
  while (true) {
    {
      const detail::Lock lock(mutex_);
      const SettleOutcome foreseen = foreseen_acknowledgement(delivery, read_clock());
      if (foreseen != SettleStatus::settled) return foreseen;
    }
    MemoryTransaction transaction(*queues_);
    {
      const HandlerThreads::Scope here(handlers_);
      work(transaction);
    }
    const auto outcome = transaction.commit(MemoryTransaction::Acknowledgement{kind_, delivery});
    if (outcome) return *outcome;
  }
}

}  // namespace oncebox::memory
