#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "oncebox/error.hpp"
#include "oncebox/queue_store.hpp"

namespace oncebox::testing {

/// How a call goes wrong.
enum class Fault {
  none,    ///< it does not
  before,  ///< `unavailable`: the call never reached the store
  after,   ///< `outcome_unknown`: the store did it, but the answer was lost
};

/// A queue store that fails when it is told to, and else behaves as the one below, so that a
/// program can be tested against a store that comes and goes.
class FaultInjectingQueueStore final : public QueueStore {
 public:
  /// Asked before each call, with the call's name ("enqueue", "claim" …); from any thread.
  using Plan = std::function<Fault(std::string_view call)>;

  /// The store is borrowed and must outlive this object.
  FaultInjectingQueueStore(QueueStore& below, Plan plan);

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

  template <class Call>
  auto perhaps_failing(std::string_view name, Call call);

  QueueStore& below_;
  Plan plan_;
};

}  // namespace oncebox::testing
