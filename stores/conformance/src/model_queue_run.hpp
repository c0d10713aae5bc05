#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "model_queue_operations.hpp"
#include "naive_queue.hpp"
#include "oncebox/conformance/harness.hpp"

namespace oncebox::conformance {

/// Does the same operations with a store and with the naive model, and throws `Disagreement` where
/// they differ.
///
/// What a store may choose is taken out of the comparison: the number of a delivery only has to
/// grow, and a message that has to go dead may do so at a claim or not before the next reap
/// (decision 0004). So store and model both reap after a claim, and before every other operation
/// that finds a burial due. A lapsed lease by itself is not reaped: what it means is specified, and
/// that it can still be settled has to be tried.
class QueueRun {
 public:
  QueueRun(Harness& harness, int max_deliveries);

  void apply(const QueueStep& step);

  /// Compares everything that can be seen of both queues.
  void compare_states();

 private:
  struct Side {
    QueueKind name;
    NaiveQueue model{name};
    std::vector<Delivery> claims = {};  ///< in the order in which they were made
    std::vector<MessageKey> quarantined = {};
  };

  /// One operation on its way: which queue of which handle, and when.
  struct Call {
    Side& side;
    std::size_t handle = 0;
    QueueStore& store;
    QueueOperator& store_operator;
    TimePoint now;
  };

  [[nodiscard]] Call call_on(Side& side, std::size_t handle);

  void run(const Call& call, const EnqueueStep& step);
  void run(const Call& call, const ObserveStep& step);
  void run(const Call& call, const MarkStep& step);
  void run(const Call& call, const ClaimStep& step);
  void run(const Call& call, const SettleStep& step);
  void run(const Call& call, const ExtendStep& step);
  void run(const Call& call, const ReapStep& step);
  void run(const Call& call, const FindStep& step);
  void run(const Call& call, const ListStep& step);
  void run(const Call& call, const CountStep& step);
  void run(const Call& call, const StatsStep& step);
  static void compare_next_due(const Call& call, const TopicSelection& topics);
  void run(const Call& call, const ReviveStep& step);
  void run(const Call& call, const EditStep& step);
  void run(const Call& call, const ReviveMatchingStep& step);
  void run(const Call& call, const ActStep& step);
  void run(const Call& call, const ActMatchingStep& step);
  void run(const Call& call, const PurgeStep& step);
  void run(const Call& call, const PurgeMatchingStep& step);
  void run(const Call& call, const CleanupStep& step);
  void run(const Call& call, const AdvanceStep& step);
  void run(const Call& call, const ReopenStep& step);

  [[nodiscard]] static Delivery delivery_of(const DeliveryRef& ref, const Side& side);
  void bury_what_is_due(const Call& call);
  void compare_state(const Call& call);
  static void compare_past_contents(const Call& call, const MessageKey& key);

  Harness& harness_;
  std::array<std::shared_ptr<Store>, 2> handles_;
  Side inbox_{QueueKind::inbox};
  Side outbox_{QueueKind::outbox};
};

/// Runs a whole sequence in a fresh space. Throws `Disagreement`, with the step in its text, also
/// when the store throws.
void run_queue_sequence(Harness& harness, const QueueSequence& sequence);

}  // namespace oncebox::conformance
