#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "handler_threads.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/driver/clock_watch.hpp"
#include "oncebox/driver/message_state.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/topic_policy.hpp"
#include "oncebox/transaction.hpp"
#include "queue_index.hpp"

namespace oncebox::memory {

class MemoryQueue;

/// Those of one store.
struct MemoryQueues {
  MemoryQueue& inbox;
  MemoryQueue& outbox;
  MemoryQueue& deliveries;
};

/// One queue in memory. A single lock makes each call atomic towards others; an error half-way
/// through a batch undoes what the batch had done.
class MemoryQueue final : public QueueStore, public QueueOperator, public TransactionalQueue {
 public:
  /// The clock and the threads are borrowed.
  MemoryQueue(QueueKind kind, const Clock& clock, const Options& options, HandlerThreads& handlers)
      : kind_(kind), policies_(kind), clock_(clock), options_(options), handlers_(handlers) {}

  /// In these handlers may enqueue. Borrowed; to be called once, first.
  void meet(const MemoryQueues& queues) noexcept { queues_ = &queues; }
  [[nodiscard]] const MemoryQueues& queues() const noexcept { return *queues_; }

  [[nodiscard]] TransactionalQueue* transactional() noexcept override { return this; }
  SettleOutcome acknowledge_with(const Delivery& delivery, const Work& work) override;

  [[nodiscard]] std::vector<TopicRule> rules();
  /// Goes by other rules from now on. `change` makes them of the present ones, under the lock.
  void change_rules(QueueKind kind,
                    const std::function<std::vector<TopicRule>(std::vector<TopicRule>)>& change);

  [[nodiscard]] Health clock_health() const { return watch_.health(clock_.now()); }

 private:
  class IntakeBatch;
  class ReapBatch;
  friend class MemoryTransaction;
  friend class StagedMessages;

  // QueueStore
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
  std::vector<std::optional<MessageRecord>> do_find(std::span<const MessageKey> keys,
                                                    const FindOptions& options) override;
  void do_require_outside_transaction() const override { handlers_.require_none_here(); }

  // QueueOperator
  MessagePage do_list(const ListRequest& request) override;
  std::size_t do_count(const MessageFilter& filter) override;
  QueueStats do_stats() override;
  std::vector<WorkerRecord> do_workers() override;
  std::vector<ReviveOutcome> do_revive(std::span<const MessageKey> keys,
                                       const ReviveOptions& options) override;
  std::size_t do_revive_matching(const MessageFilter& filter, const ReviveOptions& options,
                                 std::size_t limit) override;
  std::vector<ReviveOutcome> do_revive_edited(std::span<const EditedMessage> edits,
                                              const ReviveOptions& options) override;
  std::vector<PastContent> do_past_contents(const MessageKey& key) override;
  std::vector<ActOutcome> do_act(std::span<const MessageKey> keys, const OperatorAction& action,
                                 const ActOptions& options) override;
  std::size_t do_act_matching(const MessageFilter& filter, const OperatorAction& action,
                              std::size_t limit, const ActOptions& options) override;
  CleanupResult do_cleanup(const CleanupRequest& request) override;

  /// An attempt in a list of its own, so that keeping it cannot fail; empty: none is to be kept.
  using PreparedAttempt = std::list<Attempt>;

  /// The rows and how many bytes they have.
  struct Rows {
    explicit Rows(const Options& queue_options) : options(queue_options) {}

    /// Throws `overloaded` unless so much more can be kept.
    void require_room(std::size_t new_rows, std::size_t new_bytes,
                      std::size_t freed_bytes = 0) const;
    void remove(Row& row) noexcept;
    /// May pass `max_bytes`: then there is room for nothing else.
    void keep(Row& row, PreparedAttempt attempt) noexcept;

    const Options& options;
    QueueIndex index;
    std::size_t bytes = 0;  ///< of all keys, contents and attempts
  };
  struct PreparedEdit;

  /// The leases of each worker that have ended, though nobody has reaped them yet.
  [[nodiscard]] std::map<const Worker*, std::size_t> lapsed_leases(TimePoint now)
      ONCEBOX_REQUIRES(mutex_);
  /// The worker of this name, who claims now.
  [[nodiscard]] Worker& see_worker(const WorkerName& name, TimePoint now) ONCEBOX_REQUIRES(mutex_);
  /// Forgets those that hold nothing and were not seen after that time.
  void forget_workers(TimePoint last_seen_until) ONCEBOX_REQUIRES(mutex_);
  /// There must be a worker.
  [[nodiscard]] TimePoint median_sighting() const ONCEBOX_REQUIRES(mutex_);

  /// For calls that write, which a handler in a transaction of this store may not make: throws
  /// `conflict` then. Mends what the queue holds when the clock has gone back.
  [[nodiscard]] TimePoint read_clock() ONCEBOX_REQUIRES(mutex_);
  /// The same for a transaction.
  [[nodiscard]] TimePoint read_clock_in_transaction() ONCEBOX_REQUIRES(mutex_);
  void require_payload_size(const Payload& payload) const;
  [[nodiscard]] static PreparedEdit prepare(Row& row, const Payload& payload,
                                            const ReviveOptions& options, TimePoint now);
  [[nodiscard]] std::vector<LimitUse> limit_uses() ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] std::int64_t spent_until_ns(const TopicPattern& pattern) const noexcept
      ONCEBOX_REQUIRES(mutex_);
  void note_spent(std::span<const LimitUse> uses) noexcept ONCEBOX_REQUIRES(mutex_);
  /// Reaps, and claims unless there is more to reap first: then it says true.
  [[nodiscard]] bool claim_step(const ClaimRequest& request, const WorkerName& worker,
                                ClaimResult& answer);
  [[nodiscard]] std::vector<ClaimedMessage> claim_ready(const ClaimRequest& request, Worker& worker,
                                                        TimePoint now) ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] Row* find_delivery(const Delivery& delivery) noexcept ONCEBOX_REQUIRES(mutex_);
  /// This attempt of the row, with its worker's name; empty when it is not to be kept.
  [[nodiscard]] static PreparedAttempt attempt_to_keep(const Row& row,
                                                       std::optional<Attempt> attempt);
  /// What the end of one delivery, by whomever, needs that may fail for lack of memory.
  struct PreparedEnd {
    Row* row = nullptr;  ///< null: there is none, or the delivery does not hold it
    std::string error = {};
    PreparedAttempt attempt = {};
  };
  [[nodiscard]] PreparedEnd prepare(const Settlement& settlement, TimePoint now)
      ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] PreparedEnd prepare(const Mark& mark, TimePoint now) ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] static PreparedEnd prepare(Row* row, const OperatorAction& action,
                                           const ActOptions& options, TimePoint now);
  SettleOutcome settle_one(PreparedEnd&& prepared, const Settlement& settlement,
                           TimePoint now) noexcept ONCEBOX_REQUIRES(mutex_);
  /// What an acknowledgement would answer now.
  [[nodiscard]] SettleOutcome foreseen_acknowledgement(const Delivery& delivery, TimePoint now)
      ONCEBOX_REQUIRES(mutex_);
  /// Changes nothing unless it answers `settled`. Sets `may_be_claimable` when others may be now.
  [[nodiscard]] SettleOutcome acknowledge(const Delivery& delivery, TimePoint now,
                                          bool& may_be_claimable) ONCEBOX_REQUIRES(mutex_);
  MarkOutcome mark_one(PreparedEnd&& prepared, MarkAs as, TimePoint now) noexcept
      ONCEBOX_REQUIRES(mutex_);
  void revive_rows(std::span<Row* const> rows, const ReviveOptions& options, TimePoint now)
      ONCEBOX_REQUIRES(mutex_);
  void replace_content(Row& row, PreparedEdit edit) noexcept ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] ShownState shown_state_of(const Row& row, TimePoint now) const
      ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] MessageFilter::Subject subject_of(const Row& row, TimePoint now) const
      ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] MessageRecord to_record(const Row& row, ListPayloads payloads, TimePoint now) const
      ONCEBOX_REQUIRES(mutex_);
  template <class Iterator>
  [[nodiscard]] MessagePage collect(Iterator row, const Iterator& end,
                                    const ListRequest& request) const ONCEBOX_REQUIRES(mutex_);
  /// Those that match, the oldest first.
  [[nodiscard]] std::vector<Row*> matching(const MessageFilter& filter, std::size_t limit,
                                           TimePoint now) ONCEBOX_REQUIRES(mutex_);
  ActOutcome act_on(PreparedEnd&& prepared, const OperatorAction& action, TimePoint now) noexcept
      ONCEBOX_REQUIRES(mutex_);

  const QueueKind kind_;
  const MemoryQueues* queues_ = nullptr;
  detail::Mutex mutex_;
  TopicPolicies policies_ ONCEBOX_GUARDED_BY(mutex_);
  std::vector<std::int64_t> spent_until_ns_ ONCEBOX_GUARDED_BY(mutex_);  ///< one for each limit
  const Clock& clock_;
  ClockWatch watch_;
  const Options options_;
  HandlerThreads& handlers_;
  Rows rows_ ONCEBOX_GUARDED_BY(mutex_){options_};
  std::map<WorkerName, Worker> workers_ ONCEBOX_GUARDED_BY(mutex_);
  WorkListeners listeners_;  ///< told without the lock
};

/// How much a row counts towards `Options::max_bytes`.
[[nodiscard]] std::size_t bytes_of(const MessageKey& key) noexcept;
[[nodiscard]] std::size_t bytes_of(const Content& content) noexcept;
[[nodiscard]] std::size_t bytes_of(const ReplacedContent& replaced) noexcept;
[[nodiscard]] std::size_t bytes_of(const Attempt& attempt) noexcept;

}  // namespace oncebox::memory
