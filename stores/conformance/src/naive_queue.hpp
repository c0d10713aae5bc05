#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oncebox/driver/message_state.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_types.hpp"

namespace oncebox::conformance {

/// One key as the model knows it: what a caller can see, and what only the queue needs to remember.
struct NaiveRow {
  /// Everything visible but what follows from the rest, the time and the other rows: `eligible_at`,
  /// `state` and `waiting_for`.
  MessageRecord record;
  /// The place of its first enqueue among all of them; 0 if it was never enqueued.
  std::uint64_t enqueue_order = 0;
  /// When it became claimable. Kept while it is leased, because a release goes back to it.
  TimePoint ready_at{};
  /// Until when an abandon asked to wait.
  TimePoint backoff_until{};
  /// The content version that the holder was given.
  int leased_version = 0;
  /// What edits replaced, without who did it.
  std::vector<PastContent> past;

  [[nodiscard]] bool leased_at(TimePoint now) const;
  [[nodiscard]] bool lapsed_at(TimePoint now) const;
  [[nodiscard]] bool expired_at(TimePoint now) const;
  /// Since when it waits, if its lease lapsed: the end of the lease, or a due time that came
  /// meanwhile.
  [[nodiscard]] TimePoint ready_after_lapse() const;
  /// Brings a dead one back.
  void revive(const ReviveOptions& options, TimePoint now);
};

/// R-20, without sharing the code under test.
[[nodiscard]] bool topic_matches(const TopicPattern& pattern, const std::string& topic);

/// Ends a lease, if there is one, without its holder: the attempt ended like this, unless it lapsed
/// before.
void take_away(NaiveRow& row, AttemptOutcome outcome, const std::string& error, TimePoint now);

/// The queue of decision 0004 written as plainly as possible: one vector in the order in which the
/// keys were stored, linear scans, no index. It has no clock: every call is told the time. It is
/// not thread-safe and never throws on purpose.
///
/// The numbers of deliveries are the store's to choose, so a claim leaves them open and the caller
/// fills in what the store answered by `adopt_deliveries`.
class NaiveQueue {
 public:
  explicit NaiveQueue(QueueKind kind)
      : policy_(kind == QueueKind::outbox ? outbox_retry_policy() : RetryPolicy{}) {}

  /// What every topic has from now on.
  void set_max_deliveries(int max_deliveries) { max_deliveries_ = max_deliveries; }

  std::vector<EnqueueOutcome> enqueue(std::span<const Message> messages,
                                      const EnqueueOptions& options, TimePoint now);
  std::vector<ObserveOutcome> observe(std::span<const Observation> observations, TimePoint now);
  std::vector<MarkOutcome> mark(std::span<const Mark> marks, TimePoint now);
  std::vector<ClaimedMessage> claim(const ClaimRequest& request, TimePoint now);
  std::vector<SettleOutcome> settle(std::span<const Settlement> settlements, TimePoint now);
  std::vector<ExtendOutcome> extend(std::span<const LeaseExtension> extensions, TimePoint now);
  /// Without a limit: everything that is due.
  ReapResult reap(TimePoint now);
  [[nodiscard]] std::optional<MessageRecord> find(const MessageKey& key, TimePoint now) const;

  /// All that match, in list order, with payloads.
  [[nodiscard]] std::vector<MessageRecord> list(const MessageFilter& filter, ListOrder order,
                                                TimePoint now) const;
  [[nodiscard]] std::vector<TopicStats> stats(TimePoint now) const;
  ReviveOutcome revive(const MessageKey& key, const ReviveOptions& options, TimePoint now);
  ReviveOutcome revive_edited(const EditedMessage& edit, const ReviveOptions& options,
                              TimePoint now);
  [[nodiscard]] std::vector<PastContent> past_contents(const MessageKey& key) const;
  std::size_t revive_matching(const MessageFilter& filter, const ReviveOptions& options,
                              std::size_t limit, TimePoint now);
  std::vector<ActOutcome> act(std::span<const MessageKey> keys, const OperatorAction& action,
                              const ActOptions& options, TimePoint now);
  ActOutcome act(const MessageKey& key, const OperatorAction& action, const ActOptions& options,
                 TimePoint now);
  std::size_t act_matching(const MessageFilter& filter, const OperatorAction& action,
                           const ActOptions& options, std::size_t limit, TimePoint now);
  PurgeOutcome purge(const MessageKey& key);
  std::size_t purge_matching(const MessageFilter& filter, std::size_t limit, TimePoint now);
  /// Without a limit: everything that is past its retention.
  CleanupResult cleanup(const CleanupRequest& request, TimePoint now);

  /// Takes the numbers that the store gave the deliveries of one claim. False unless they differ
  /// and are greater than all numbers given before.
  [[nodiscard]] bool adopt_deliveries(std::span<const ClaimedMessage> claimed);
  /// Whether this delivery could be settled.
  [[nodiscard]] bool is_held(const Delivery& delivery) const;
  /// Between which times the next due time must lie: the earlier counts messages behind others of
  /// their partition, the later does not.
  struct DueBounds {
    std::optional<TimePoint> earliest;
    std::optional<TimePoint> latest;
  };
  [[nodiscard]] DueBounds next_due(const TopicSelection& topics, TimePoint now) const;

  /// Whether `reap` would bury something.
  [[nodiscard]] bool burial_due(TimePoint now) const;

 private:
  [[nodiscard]] NaiveRow* row_of(const MessageKey& key);
  NaiveRow& add_row(const MessageKey& key, TimePoint now);

  EnqueueOutcome enqueue_one(const Message& message, const EnqueueOptions& options, TimePoint now);
  MessageId quarantine(const Message& message, TimePoint now);
  void accept(NaiveRow& row, const Message& message, TimePoint now);
  [[nodiscard]] NaiveRow* holder(const Delivery& delivery);
  SettleOutcome settle_one(const Settlement& settlement, TimePoint now);
  /// The record as a caller sees it.
  [[nodiscard]] MessageRecord visible(const NaiveRow& row, TimePoint now) const;
  [[nodiscard]] std::optional<WaitingFor> waits_for(const NaiveRow& row, TimePoint now) const;
  [[nodiscard]] bool is_head(const NaiveRow& row) const;
  [[nodiscard]] bool partition_has_owner(const NaiveRow& row) const;
  [[nodiscard]] bool claimable(const NaiveRow& row, const TopicSelection& topics,
                               TimePoint now) const;

  [[nodiscard]] bool lapses_too_often(const NaiveRow& row) const;

  RetryPolicy policy_;
  int max_deliveries_ = 2 * policy_.max_attempts;
  std::vector<NaiveRow> rows_;  // in the order in which the keys were first stored
  std::uint64_t enqueues_ = 0;
  DeliveryNumber last_delivery_{};  // the greatest number given so far
};

}  // namespace oncebox::conformance
