#pragma once

#include <span>
#include <vector>

#include "ledger.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"

namespace oncebox::workers {

/// Writes down who was given what until when, and what became of it, and otherwise behaves as the
/// queue below. Before a call that gives something up, after a call that gives something: so the
/// ledger never claims more than was so.
class RecordingQueue final : public ForwardingQueueStore {
 public:
  /// Both are borrowed.
  RecordingQueue(QueueStore& below, Ledger& ledger)
      : ForwardingQueueStore(below), ledger_(ledger) {}

 private:
  ClaimResult do_claim(const ClaimRequest& request) override;
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override;
  std::vector<ExtendOutcome> do_extend(std::span<const LeaseExtension> extensions) override;
  void do_offer(const std::shared_ptr<ClaimOffer>& offer) override;

  void note(std::span<const ClaimedMessage> claimed, Duration lease);

  Ledger& ledger_;
};

}  // namespace oncebox::workers
