#pragma once

#include <span>
#include <vector>

#include "ledger.hpp"
#include "oncebox/queue_store.hpp"

namespace oncebox::workers {

/// Writes down who was given what until when, and what became of it, and else behaves as the queue
/// below. Before a call that gives something up, after a call that gives something: so the ledger
/// never claims more than was so.
class RecordingQueue final : public QueueStore {
 public:
  /// Both are borrowed.
  RecordingQueue(QueueStore& below, Ledger& ledger) : below_(below), ledger_(ledger) {}

 private:
  std::vector<EnqueueOutcome> do_enqueue(std::span<const Message> messages,
                                         const EnqueueOptions& options) override;
  std::vector<ObserveOutcome> do_observe(std::span<const Observation> observations) override;
  std::vector<MarkOutcome> do_mark(std::span<const Mark> marks) override;
  std::vector<ClaimedMessage> do_claim(const ClaimRequest& request) override;
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override;
  std::vector<ExtendOutcome> do_extend(std::span<const LeaseExtension> extensions) override;
  ReapResult do_reap(const ReapRequest& request) override;
  std::optional<TimePoint> do_next_due(const TopicSelection& topics) override;
  void do_listen(std::weak_ptr<WorkListener> listener) override;
  void do_offer(const std::shared_ptr<ClaimOffer>& offer) override;
  std::vector<std::optional<MessageRecord>> do_find(std::span<const MessageKey> keys) override;
  void do_require_outside_transaction() const override { below_.require_outside_transaction(); }

  void note(std::span<const ClaimedMessage> claimed, Duration lease);

  QueueStore& below_;
  Ledger& ledger_;
};

}  // namespace oncebox::workers
