#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "connection_pool.hpp"
#include "names.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/topic_policy.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

/// The rules at one time, and the number of their last change.
struct VersionedPolicies {
  std::int64_t version = 0;
  TopicPolicies policies;
};

/// What a process knows of the rules of one queue. Every claim says which version it goes by, and
/// hands out nothing by an old one; so nobody has to ask before.
class KnownPolicies {
 public:
  using Snapshot = std::shared_ptr<const VersionedPolicies>;

  KnownPolicies(ConnectionPool& pool, const Names& names, QueueKind queue);

  /// What was read last; null if nothing was.
  [[nodiscard]] Snapshot known() const;
  /// What was read last, or is read now if nothing was.
  [[nodiscard]] Snapshot last();
  /// What holds now. The rules come from the database only when they have changed since.
  [[nodiscard]] Snapshot read();
  /// The same in a transaction.
  [[nodiscard]] Snapshot read(Transaction& transaction);

  /// As `ClaimAllowance::next_due`, at the database's time or a test's.
  [[nodiscard]] std::optional<TimePoint> next_due(const TopicSelection& topics,
                                                  std::optional<TimePoint> due,
                                                  std::optional<TimePoint> test_time);

 private:
  template <class Run>
  [[nodiscard]] Snapshot read_by(Run run);

  ConnectionPool& pool_;
  const QueueKind queue_;
  const Statement select_;
  const Statement select_with_time_;
  mutable detail::Mutex mutex_;
  Snapshot known_ ONCEBOX_GUARDED_BY(mutex_);
};

/// The rules for topics, one row of `topic_policy` for each.
class PostgresqlPolicies final : public PolicyStore {
 public:
  /// `tell` is called after a change, because what was paused may be claimable now.
  PostgresqlPolicies(ConnectionPool& pool, const Names& names, std::function<void(QueueKind)> tell);

 private:
  std::vector<TopicRule> do_rules(QueueKind queue) override;
  TopicPolicy do_update(QueueKind queue, const TopicPattern& pattern,
                        const TopicPolicyChange& change, const PolicyOptions& options) override;
  bool do_remove(QueueKind queue, const TopicPattern& pattern,
                 const PolicyOptions& options) override;

  ConnectionPool& pool_;
  const std::function<void(QueueKind)> tell_;
  const Statement lock_;
  const Statement select_;
  const Statement delete_;
  const Statement save_;
  const Statement advance_;
};

}  // namespace oncebox::postgresql
