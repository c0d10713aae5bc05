#include "postgresql_policies.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "oncebox/sql/policy_json.hpp"

namespace oncebox::postgresql {

namespace {

// At least one row, so that the version is known when there are no rules.
constexpr std::string_view kSelectRules = R"sql(
SELECT p.pattern, p.is_exact, p.policy, v.version
  FROM {policy_version} v LEFT JOIN {topic_policy} p ON p.queue = $1::text)sql";

std::vector<TopicRule> read_rules(const Result& result) {
  std::vector<TopicRule> rules;
  for (int row = 0; row < result.rows(); ++row) {
    if (!result.is_null(row, 0)) rules.push_back(sql::read_topic_rule(ResultRow(result, row)));
  }
  return rules;
}

Parameters key_of(QueueKind queue, const TopicPattern& pattern) {
  Parameters key;
  key.add(to_string(queue)).add(pattern.str());
  key.add(static_cast<std::int32_t>(pattern.is_exact()));
  return key;
}

}  // namespace

KnownPolicies::KnownPolicies(ConnectionPool& pool, const Names& names, QueueKind queue)
    : pool_(pool), queue_(queue), select_{"policy_read", names.fill(kSelectRules)} {}

KnownPolicies::Snapshot KnownPolicies::last() {
  {
    const detail::Lock lock(mutex_);
    if (known_) return known_;
  }
  return read();
}

KnownPolicies::Snapshot KnownPolicies::read() {
  const Result result =
      run_alone(pool_, select_, Parameters().add(to_string(queue_)), Exchange::changes_nothing);
  const std::int64_t version = result.int64(0, 3);
  const detail::Lock lock(mutex_);
  if (!known_ || known_->version < version) {
    known_ = std::make_shared<const VersionedPolicies>(
        VersionedPolicies{version, TopicPolicies(queue_, read_rules(result))});
  }
  return known_;
}

PostgresqlPolicies::PostgresqlPolicies(ConnectionPool& pool, const Names& names,
                                       std::function<void(QueueKind)> tell)
    : pool_(pool),
      tell_(std::move(tell)),
      lock_{"policy_lock", names.fill("SELECT version FROM {policy_version} FOR UPDATE")},
      select_{"policy_read", names.fill(kSelectRules)},
      delete_{"policy_delete", names.fill(R"sql(
DELETE FROM {topic_policy}
 WHERE queue = $1::text AND pattern = $2::text AND is_exact = $3::integer)sql")},
      insert_{"policy_insert", names.fill(R"sql(
INSERT INTO {topic_policy} (queue, pattern, is_exact, policy)
VALUES ($1::text, $2::text, $3::integer, $4::text))sql")},
      advance_{"policy_advance", names.fill("UPDATE {policy_version} SET version = version + 1")} {}

std::vector<TopicRule> PostgresqlPolicies::do_rules(QueueKind queue) {
  return read_rules(
      run_alone(pool_, select_, Parameters().add(to_string(queue)), Exchange::changes_nothing));
}

TopicPolicy PostgresqlPolicies::do_update(QueueKind queue, const TopicPattern& pattern,
                                          const TopicPolicy& changes) {
  TopicPolicy after = in_transaction(pool_, [&](Transaction& transaction) {
    const Parameters nothing;
    const Parameters name = Parameters().add(to_string(queue));
    const std::array before{Command{&lock_, &nothing}, Command{&select_, &name}};
    const std::vector<TopicRule> rules = read_rules(transaction.run_all(before).back());
    TopicPolicy policy = policy_after(rules, pattern, changes);
    const Parameters key = key_of(queue, pattern);
    Parameters rule = key_of(queue, pattern);
    rule.add(sql::to_json(policy));
    std::vector<Command> commands{{&delete_, &key}};
    if (!policy.empty()) commands.push_back({&insert_, &rule});
    commands.push_back({&advance_, &nothing});
    transaction.commit(commands);
    return policy;
  });
  tell_(queue);
  return after;
}

bool PostgresqlPolicies::do_remove(QueueKind queue, const TopicPattern& pattern) {
  const bool removed = in_transaction(pool_, [&](Transaction& transaction) {
    const Parameters nothing;
    const Parameters key = key_of(queue, pattern);
    const std::array commands{Command{&lock_, &nothing}, Command{&delete_, &key},
                              Command{&advance_, &nothing}};
    return transaction.commit(commands)[1].changed() > 0;
  });
  if (removed) tell_(queue);
  return removed;
}

}  // namespace oncebox::postgresql
