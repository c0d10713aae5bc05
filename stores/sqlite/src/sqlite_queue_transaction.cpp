#include <algorithm>
#include <utility>

#include "oncebox/limits.hpp"
#include "queue_intake.hpp"
#include "sqlite_queue.hpp"
#include "store_transaction.hpp"

namespace oncebox::sqlite {

namespace {

/// Takes the transaction back: the delivery cannot be acknowledged.
struct NotAcknowledged {
  SettleOutcome outcome;
};

}  // namespace

std::vector<EnqueueOutcome> SqliteQueue::enqueue_in_transaction(std::span<const Message> messages,
                                                                const EnqueueOptions& options) {
  for (const Message& message : messages) {
    require_payload_size(message.payload.size(), max_payload_bytes_);
  }
  table_.begin_call();
  std::vector<EnqueueOutcome> outcomes = take_in(table_, messages, options, read_clock());
  table_.end_call();
  return outcomes;
}

// Whoever has the write lock when a transaction begins has it until its end, so a delivery that can
// be acknowledged at the beginning could be at the end.
SettleOutcome SqliteQueue::acknowledge_with(const Delivery& delivery, const Work& work) {
  std::vector<SqliteQueue*> brought_work;
  const auto enqueue = [&](QueueKind kind, std::span<const Message> messages,
                           const EnqueueOptions& options) {
    SqliteQueue& queue = kind == kind_ ? *this : sibling_(kind);
    // Each call of it succeeds or fails as a whole.
    Writer::Savepoint savepoint(parts_.writer);
    std::vector<EnqueueOutcome> outcomes = queue.enqueue_in_transaction(messages, options);
    savepoint.release();
    if (std::any_of(outcomes.begin(), outcomes.end(), brings_work)) brought_work.push_back(&queue);
    return outcomes;
  };
  const Settlement settlement{delivery, Ack{}};
  bool may_be_claimable = false;
  try {
    parts_.writer.run(Flush::required, [&] {
      brought_work.clear();
      table_.begin_call();
      const SettleOutcome outcome =
          settle_in_order({&settlement, 1}, read_clock(), may_be_claimable).front();
      table_.end_call();
      if (outcome != SettleStatus::settled) throw NotAcknowledged{outcome};
      StoreTransaction transaction(parts_.connection, enqueue);
      parts_.writer.run_caller([&] { work(transaction); });
      return true;
    });
  } catch (const NotAcknowledged& refused) {
    return refused.outcome;
  }
  if (may_be_claimable) listeners_.notify();
  for (const SqliteQueue* queue : brought_work) queue->notify();
  return {};
}

}  // namespace oncebox::sqlite
