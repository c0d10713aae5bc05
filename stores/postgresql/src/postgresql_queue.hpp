#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "announcer.hpp"
#include "claim_floors.hpp"
#include "connection_pool.hpp"
#include "handouts.hpp"
#include "names.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/driver/clock_watch.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/sql/worker_sightings.hpp"
#include "postgresql_policies.hpp"
#include "queue_sql.hpp"
#include "row_batch.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

/// What the parts of one store share. Everything is borrowed.
struct StoreParts {
  ConnectionPool& pool;
  const Names& names;
  const Clock* clock;          ///< null: the database's clock decides
  const Clock& schedules;      ///< whose steady time decides when something is done again
  std::string_view signature;  ///< what this process's announcements say
};

/// One queue in the database. What happens all the time, enqueueing what is new, claiming,
/// acknowledging and extending, is one statement each; everything else reads the rows it is about
/// (see `RowBatch`), applies the rules of decision 0004 and writes them back.
class PostgresqlQueue final : public QueueStore, public QueueOperator, public TransactionalQueue {
 public:
  PostgresqlQueue(const StoreParts& parts, QueueKind kind);

  using Sibling = std::function<PostgresqlQueue&(QueueKind)>;
  /// The queues of the store, for transactions; must be called before any.
  void meet(Sibling sibling) { sibling_ = std::move(sibling); }

  [[nodiscard]] TransactionalQueue* transactional() noexcept override { return this; }
  SettleOutcome acknowledge_with(const Delivery& delivery, const Work& work) override;

  /// Tells the listeners that another process may have brought work.
  void notify() const noexcept { listeners_.notify(); }
  /// Tells of the work that a transaction brought, just after its commit.
  void announce_committed();
  /// Whether the server's clock went back; asks the server only then.
  [[nodiscard]] Health clock_health();
  /// Called by every `listen`.
  void on_listen(std::function<void()> start) { start_listening_ = std::move(start); }

 private:
  class Editing;
  class Enqueueing;
  class Settling;
  class LimitedClaim;

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
  void do_offer(const std::shared_ptr<ClaimOffer>& offer) override;
  std::vector<std::optional<MessageRecord>> do_find(std::span<const MessageKey> keys,
                                                    const FindOptions& options) override;

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

  /// Throws `invalid_argument` when one of them, or all together, have too many bytes.
  void require_payload_sizes(std::span<const Message> messages) const;

  /// What a test says the time is.
  [[nodiscard]] std::optional<TimePoint> test_time() const;

  /// Runs `work(rows, transaction)` in a transaction in which the locks of these partitions are
  /// held, and repeats it with more locks as long as it meets messages of other partitions. `work`
  /// commits.
  template <class Work>
  auto in_rows(std::set<std::string> partitions, Work work) {
    const Deadline deadline = parts_.pool.deadline();
    for (;;) {
      try {
        return in_transaction(parts_.pool, deadline, [&](Transaction& transaction) {
          RowBatch rows(transaction, sql_, parts_.names, name_, test_time());
          rows.lock_partitions(partitions);
          return work(rows, transaction);
        });
      } catch (const PartitionsNotLocked& missing) {
        partitions = missing.partitions;
      }
    }
  }

  /// Commits, together with the last commands. If that brings work, other processes are told, with
  /// the commit or soon after it.
  std::vector<Result> commit(RowBatch& rows, bool brings_work, std::span<const Command> last = {});

  /// Whether the end of a lease may let others be claimed, because the number of leases is limited.
  [[nodiscard]] bool makes_room() const;

  /// Where a process stands with a claim.
  struct ClaimAnswer {
    bool is_clean = false;  ///< nothing had to be reaped first
    TimePoint now{};
    std::int64_t policies = 0;  ///< the version of the rules for topics
    std::size_t candidates = 0;
    bool has_more = false;  ///< not all runs were looked at that could have been candidates
    std::size_t chosen = 0;
    std::optional<IdRange> missed;        ///< the first that another call is claiming from
    std::vector<StoredMessage> messages;  ///< in order
    std::vector<HeldRun> runs;            ///< in which some of them stand
  };
  /// Where and how much of the queue a claim looks at.
  struct ClaimWindow {
    std::size_t limit = 0;
    std::size_t candidates = 0;
    std::size_t bytes_left = 0;
    bool takes_one_at_least = true;  ///< whatever its bytes
  };
  [[nodiscard]] static ClaimWindow whole_window(const ClaimRequest& request) noexcept {
    return {request.limit, request.limit, request.max_bytes};
  }
  /// A claim of topics that were chosen by these rules, for the worker with this number.
  struct RuledClaim {
    const ClaimRequest& request;
    const VersionedPolicies& rules;
    std::int32_t worker = 0;
    ReapResult& reaped;  ///< takes what was reaped for the claim, as soon as that is committed
  };
  /// The number of the worker's row, which says, now and then, when the worker was last seen.
  [[nodiscard]] std::int32_t worker_number(const WorkerName& name);
  [[nodiscard]] Command claim_command(const RuledClaim& claim, const ClaimWindow& window,
                                      const ClaimFloors::Floors& floors,
                                      Parameters& parameters) const;
  [[nodiscard]] static ClaimAnswer read_claim(const Result& result, std::int32_t worker);
  /// The order in which messages are handed out.
  [[nodiscard]] static bool comes_first(const StoredMessage& a, const StoredMessage& b) noexcept;
  [[nodiscard]] ClaimAnswer claim_once(const RuledClaim& claim, const ClaimWindow& window,
                                       const ClaimFloors::Floors& floors);
  /// Waits a moment for the calls that are claiming from this run.
  [[nodiscard]] ClaimAnswer claim_behind_others(const RuledClaim& claim,
                                                const ClaimFloors::Floors& floors,
                                                const IdRange& run);
  [[nodiscard]] ClaimAnswer claim_after_reaping(const RuledClaim& claim,
                                                const ClaimFloors::Floors& floors);
  [[nodiscard]] ClaimAnswer claim_from_floors(const RuledClaim& claim);
  [[nodiscard]] ClaimAnswer claim_within_limits(const RuledClaim& claim);
  /// Claims nothing when the rules have changed meanwhile.
  [[nodiscard]] ClaimAnswer claim_by(const RuledClaim& claim);
  [[nodiscard]] std::vector<ClaimedMessage> claim_by_current_rules(const ClaimRequest& request,
                                                                   ReapResult& reaped);
  void claim_more(const RuledClaim& claim, ClaimFloors::Floors floors, ClaimAnswer& answer);

  /// What the clock of the database says.
  [[nodiscard]] TimePoint database_time();
  /// Once: the newest time that the queue knows of, with which the clock is compared.
  void know_newest();
  /// Notices from the time of a claim that the server's clock went back, mends what the queue holds
  /// (see `mend_times`), and answers whether it has.
  bool mend_after_claim(TimePoint claimed_at);

  /// Moves messages that were leased under these policies out to the caller, and remembers that the
  /// caller has them.
  [[nodiscard]] std::vector<ClaimedMessage> hand_out(std::span<StoredMessage> messages,
                                                     std::span<const HeldRun> runs,
                                                     const TopicPolicies& policies);
  /// Adds to the records at these places the attempts that were kept, and cuts off the records that
  /// are too many then.
  void add_attempts(std::vector<std::optional<MessageRecord>>& records,
                    std::span<const std::size_t> places, std::size_t max_bytes);
  /// Notes that a message has left the run in which it was claimed.
  void leave_run(const Delivery& delivery);
  /// Gives each message of the run in which this one was claimed a row of its own, unless it is
  /// alone there.
  void split_run_of(const Delivery& delivery);
  /// Enqueues in a transaction that the caller commits.
  std::vector<EnqueueOutcome> enqueue_in(Transaction& transaction,
                                         std::span<const Message> messages,
                                         const EnqueueOptions& options);
  /// Answers those that name a message which another one names too, and are still to be done.
  std::vector<std::size_t> extend_once(Transaction& transaction,
                                       std::span<const LeaseExtension> extensions,
                                       const std::vector<std::size_t>& places,
                                       std::vector<ExtendOutcome>& outcomes) const;
  /// Messages whose lease has lapsed, or which expired.
  struct Overdue {
    std::vector<std::int64_t> ids;
    std::set<std::string> partitions;
  };
  [[nodiscard]] Overdue find_overdue(std::size_t limit,
                                     const std::optional<TimePoint>& lapsed_after);
  /// Reaps a backlog down to its end, which is answered.
  [[nodiscard]] Overdue find_overdue_end(const TopicPolicies& policies,
                                         const std::optional<TimePoint>& lapsed_after,
                                         ReapResult& reaped_before);
  /// Changes those that still are, without committing it.
  static ReapResult reap_in(RowBatch& rows, const Overdue& overdue, const TopicPolicies& policies);
  ReapResult reap_each(const Overdue& overdue, const TopicPolicies& policies);
  /// Revives those that match a filter of the dead, if there is one, when they are locked.
  std::vector<ReviveOutcome> revive_those(std::span<const MessageKey> keys,
                                          const std::optional<MessageFilter>& only,
                                          const ReviveOptions& options);
  /// Those that match, the oldest first.
  [[nodiscard]] std::vector<MessageKey> matching(const MessageFilter& filter, std::size_t limit);

  const StoreParts parts_;
  const QueueKind kind_;
  Sibling sibling_;
  const std::string name_;
  const QueueSql sql_;
  KnownPolicies policies_;
  detail::Mutex splitting_;  ///< guards nothing: of several threads one splits a run
  Handouts handouts_;
  sql::WorkerSightings workers_;
  ClaimFloors floors_;
  ClockWatch watch_;
  std::once_flag newest_is_known_;
  WorkListeners listeners_;
  ClaimOffers offers_;
  std::function<void()> start_listening_;
  Announcer announcer_;  // last: its thread uses the pool
};

}  // namespace oncebox::postgresql
