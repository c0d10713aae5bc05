#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/tracing.hpp"

namespace oncebox {

/// What lines about settlements that were lost, or by which a message died, say of the message.
/// Lines about other deaths always say what is looked up.
enum class DeliveryLines {
  by_key,     ///< what the settlement says: source and id
  looked_up,  ///< topic, correlation, causation and partition, too, for one more read of the store
};

/// A queue store that tells a logger and an observer what passes through it, and otherwise behaves
/// as the one below. Logging and metrics are written here once, for every backend.
///
/// Levels: observations and claims at debug, enqueues, lost deliveries and reaps at info, hash
/// mismatches and every death of a message at warning, whatever caused it, failing calls at
/// error. Every line carries the store's name; one about a message its key and, where they are
/// known, its topic, correlation and causation id, partition and request. No line carries a
/// payload, another header or an error text of a handler.
class ObservedQueueStore final : public QueueStore, private TransactionalQueue {
 public:
  /// Everything is borrowed and must outlive this object. `store_name` appears in each line. A
  /// tracer is told of the spans of claims.
  ObservedQueueStore(QueueStore& below, std::string store_name, const Surroundings& surroundings,
                     DeliveryLines delivery_lines = DeliveryLines::by_key);

  /// Enqueues with the commit of a transaction instead, and tells of it in the same way: of what
  /// was offered, whether it commits or not.
  std::vector<EnqueueOutcome> enqueue_with(Transaction& transaction, QueueKind queue,
                                           std::span<const Message> messages,
                                           const EnqueueOptions& options = {});

  [[nodiscard]] TransactionalQueue* transactional() noexcept override {
    return below_.transactional() != nullptr ? this : nullptr;
  }

 private:
  std::vector<EnqueueOutcome> do_enqueue(std::span<const Message> messages,
                                         const EnqueueOptions& options) override;
  std::vector<ObserveOutcome> do_observe(std::span<const Observation> observations) override;
  std::vector<MarkOutcome> do_mark(std::span<const Mark> marks) override;
  ClaimResult do_claim(const ClaimRequest& request) override;
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override;
  std::vector<ExtendOutcome> do_extend(std::span<const LeaseExtension> extensions) override;
  ReapResult do_reap(const ReapRequest& request) override;
  std::optional<TimePoint> do_next_due(const TopicSelection& topics) override;
  void do_listen(std::weak_ptr<WorkListener> listener) override;
  void do_offer(const std::shared_ptr<ClaimOffer>& offer) override;
  SettleOutcome acknowledge_with(const Delivery& delivery, const Work& work) override;
  std::vector<std::optional<MessageRecord>> do_find(std::span<const MessageKey> keys,
                                                    const FindOptions& options) override;
  void do_require_outside_transaction() const override { below_.require_outside_transaction(); }

  void observe_enqueue(std::span<const Message> messages, std::span<const EnqueueOutcome> outcomes);
  void observe_settlements(std::span<const Settlement> settlements,
                           std::span<const SettleOutcome> outcomes) noexcept;
  void observe_claim(std::span<const ClaimedMessage> claimed, const ClaimRequest& request);
  void observe_reap(const ReapResult& result);

  template <class Call>
  auto timed(std::string_view name, std::size_t items, Call call);

  QueueStore& below_;
  std::string store_name_;
  Logger& logger_;
  Observer& observer_;
  const Clock& clock_;
  const DeliveryLines delivery_lines_;
  Tracer* const tracer_;
};

}  // namespace oncebox
