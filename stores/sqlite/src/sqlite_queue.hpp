#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/driver/clock_watch.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "queue_table.hpp"
#include "reader_pool.hpp"
#include "sqlite_policies.hpp"
#include "writer.hpp"

namespace oncebox::sqlite {

/// What the parts of one store share. Everything is borrowed.
struct StoreParts {
  Connection& connection;  ///< the writer's
  Writer& writer;
  ReaderPool& readers;
  ReaderPool& own_reader;  ///< for workers and health, which must not wait for an operator's report
  TopicNumbers& topics;
  SqlitePolicies& policies;
  const Clock& clock;
};

/// One queue in the database: a call that writes runs on the writer's thread in a transaction, one
/// that reads on a reader.
class SqliteQueue final : public QueueStore, public QueueOperator, public TransactionalQueue {
 public:
  SqliteQueue(const StoreParts& parts, QueueKind kind, const Options& options);

  using Sibling = std::function<SqliteQueue&(QueueKind)>;
  /// The queues of the store, for transactions; must be called before any.
  void meet(Sibling sibling) { sibling_ = std::move(sibling); }

  [[nodiscard]] TransactionalQueue* transactional() noexcept override { return this; }
  SettleOutcome acknowledge_with(const Delivery& delivery, const Work& work) override;

  /// How a transaction of the writer ended; called on its thread.
  void on_ending(Writer::Ending ending) noexcept;

  /// Tells the listeners that another process may have brought work.
  void notify() const noexcept { listeners_.notify(); }
  [[nodiscard]] Health clock_health() const { return watch_.health(parts_.clock.now()); }
  /// Called once, by the first `listen`.
  void on_first_listener(std::function<void()> start) { start_watching_ = std::move(start); }

 private:
  class Settling;

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
  void do_require_outside_transaction() const override { parts_.writer.require_not_lent_here(); }

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

  /// For calls that read.
  [[nodiscard]] std::vector<TopicPattern> paused_topics();

  /// Runs `work(now)` in a transaction. The clock is read there, so that times are in the order of
  /// the transactions.
  template <class Work>
  auto write(Flush flush, Work work) {
    return parts_.writer.run(flush, [&] {
      table_.begin_call();
      auto answer = work(read_clock());
      table_.end_call();
      return answer;
    });
  }

  // These run on the writer's thread.
  /// Mends what the queue holds when the clock has gone back.
  [[nodiscard]] TimePoint read_clock();
  std::vector<EnqueueOutcome> enqueue_in_transaction(std::span<const Message> messages,
                                                     const EnqueueOptions& options);
  [[nodiscard]] std::vector<SettleOutcome> settle_in_order(std::span<const Settlement> settlements,
                                                           TimePoint now, bool& may_be_claimable);
  /// Reaps, and claims unless there is more to reap first: then it says true.
  [[nodiscard]] bool claim_step(const ClaimRequest& request, ClaimResult& answer);
  [[nodiscard]] std::vector<ClaimedMessage> claim_ready(const ClaimRequest& request, TimePoint now);
  [[nodiscard]] ClaimAllowance allowance_at(TimePoint now, const TopicPolicies& policies);
  void on_nothing_to_do();
  ReapResult reap_some(std::size_t limit, TimePoint now);
  [[nodiscard]] const ResolvedPolicy& policy_of(const QueueRow& row);
  SettleOutcome settle_one(const Settlement& settlement, TimePoint now);
  /// Saves a row whose delivery has ended, if one has.
  void save(QueueRow& row, const std::optional<Attempt>& ended);
  void revive_row(QueueRow& row, const ReviveOptions& options, TimePoint now);
  ReviveOutcome revive_edited_one(const EditedMessage& edit, const ReviveOptions& options,
                                  TimePoint now);
  /// Those that match, the oldest first.
  [[nodiscard]] std::vector<std::int64_t> matching(const MessageFilter& filter, std::size_t limit,
                                                   TimePoint now);
  /// Of these keys; without a filter all do.
  std::vector<bool> which_match(std::span<const MessageKey> keys,
                                const std::optional<MessageFilter>& filter, TimePoint now);
  ActOutcome act_on(QueueRow& row, const OperatorAction& action, const ActOptions& options,
                    TimePoint now);
  void give_pages_back();

  StoreParts parts_;
  const QueueKind kind_;
  Sibling sibling_;
  const std::string name_;
  const std::size_t max_payload_bytes_;
  QueueTable table_;
  ClockWatch watch_;
  std::optional<TimePoint> mended_at_;  ///< in the transaction under way
  WorkListeners listeners_;
  std::function<void()> start_watching_;
  std::int64_t changes_when_idle_ = 0;
  bool rests_ = false;  // and the writer's pages are to be given back
};

}  // namespace oncebox::sqlite
