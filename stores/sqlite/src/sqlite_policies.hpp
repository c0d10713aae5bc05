#pragma once

#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "connection.hpp"
#include "oncebox/driver/claim_allowance.hpp"
#include "oncebox/topic_policy.hpp"
#include "reader_pool.hpp"
#include "writer.hpp"

namespace oncebox::sqlite {

/// The rules of a queue as they are stored.
struct StoredRules {
  StoredRules(Connection& connection, QueueKind queue);

  TopicPolicies policies;
  std::vector<LimitUse> spent;  ///< one for each limit, without what is leased
};

/// The rules for topics, one row of `oncebox_topic_policy` for each. A version in the database
/// tells whether another process has changed them.
class SqlitePolicies final : public PolicyStore {
 public:
  /// Everything is borrowed.
  SqlitePolicies(Connection& writer_connection, Writer& writer, ReaderPool& readers);

  /// Called after a change, because what was paused may be claimable now.
  void on_change(std::function<void(QueueKind)> tell) { tell_ = std::move(tell); }

  /// What holds now. For a call on the writer's thread, in its transaction; valid until it ends.
  [[nodiscard]] const TopicPolicies& current(QueueKind queue);
  /// What of the limited rates is used up, one for each limit of the current rules; the same way.
  [[nodiscard]] std::vector<LimitUse> spent(QueueKind queue);
  void note_spent(QueueKind queue, std::span<const LimitUse> uses);
  /// A transaction was rolled back, and what was read in it may never have been.
  void forget() noexcept { known_version_.reset(); }

 private:
  std::vector<TopicRule> do_rules(QueueKind queue) override;
  TopicPolicy do_update(QueueKind queue, const TopicPattern& pattern,
                        const TopicPolicyChange& change, const PolicyOptions& options) override;
  bool do_remove(QueueKind queue, const TopicPattern& pattern,
                 const PolicyOptions& options) override;

  /// These run on the writer's thread.
  void remove_rule(QueueKind queue, const TopicPattern& pattern);
  void save_rule(QueueKind queue, const TopicPattern& pattern, const TopicPolicy& policy);

  Connection& connection_;
  Writer& writer_;
  ReaderPool& readers_;
  Statement version_;
  Statement select_;
  Statement delete_;
  Statement insert_;
  Statement advance_;
  Statement spend_;
  std::function<void(QueueKind)> tell_;
  std::optional<std::int64_t> known_version_;
  std::array<TopicPolicies, std::size(kQueueKinds)> policies_{TopicPolicies(QueueKind::inbox),
                                                              TopicPolicies(QueueKind::outbox),
                                                              TopicPolicies(QueueKind::deliveries)};
};

}  // namespace oncebox::sqlite
