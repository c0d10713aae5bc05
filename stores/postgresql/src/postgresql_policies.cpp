#include "postgresql_policies.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "oncebox/driver/claim_allowance.hpp"
#include "oncebox/sql/policy_json.hpp"
#include "queue_sql.hpp"

namespace oncebox::postgresql {

namespace {

// Without the rules when their version is $2, by which the caller knows them. At least one row, so
// that the version is known then, too, and when there are no rules.
constexpr std::string_view kSelectRules = R"sql(
SELECT p.pattern, p.is_exact, p.policy, p.spent_until, v.version
  FROM {policy_version} v
  LEFT JOIN {topic_policy} p ON p.queue = $1::text AND v.version IS DISTINCT FROM $2::bigint)sql";

// At least one row, too.
const std::string kSelectRulesWithTime = fmt::format(R"sql(
SELECT p.pattern, p.is_exact, p.policy, p.spent_until, {now}
  FROM {{policy_version}} v LEFT JOIN {{topic_policy}} p ON p.queue = $1::text)sql",
                                                     fmt::arg("now", now_sql("$2")));

std::vector<sql::StoredRule> read_stored(const Result& result) {
  std::vector<sql::StoredRule> rules;
  for (int row = 0; row < result.rows(); ++row) {
    if (!result.is_null(row, 0)) rules.push_back(sql::read_stored_rule(ResultRow(result, row)));
  }
  return rules;
}

std::vector<TopicRule> read_rules(const Result& result) {
  return sql::rules_of(read_stored(result));
}

/// For `kSelectRules`.
Parameters rules_of(QueueKind queue, std::optional<std::int64_t> known_version = std::nullopt) {
  return Parameters().add(to_string(queue)).add(known_version);
}

Parameters key_of(QueueKind queue, const TopicPattern& pattern) {
  Parameters key;
  key.add(to_string(queue)).add(pattern.str());
  key.add(static_cast<std::int32_t>(pattern.is_exact()));
  return key;
}

}  // namespace

KnownPolicies::KnownPolicies(ConnectionPool& pool, const Names& names, QueueKind queue)
    : pool_(pool),
      queue_(queue),
      select_{"policy_read", names.fill(kSelectRules)},
      select_with_time_{"policy_read_with_time", names.fill(kSelectRulesWithTime)} {}

KnownPolicies::Snapshot KnownPolicies::known() const {
  const detail::Lock lock(mutex_);
  return known_;
}

KnownPolicies::Snapshot KnownPolicies::last() {
  Snapshot rules = known();
  return rules ? rules : read();
}

KnownPolicies::Snapshot KnownPolicies::read() {
  return read_by([this](const Parameters& values) {
    return run_alone(pool_, select_, values, Exchange::changes_nothing);
  });
}

KnownPolicies::Snapshot KnownPolicies::read(Transaction& transaction) {
  return read_by([&](const Parameters& values) { return transaction.run(select_, values); });
}

template <class Run>
KnownPolicies::Snapshot KnownPolicies::read_by(Run run) {
  const Snapshot before = known();
  const auto version_before = before ? std::optional(before->version) : std::nullopt;
  const Result result = run(rules_of(queue_, version_before));
  const std::int64_t version = result.int64(0, 4);
  if (before && before->version == version) return before;
  // It may be less than before: another server may have taken over.
  const Snapshot now = std::make_shared<const VersionedPolicies>(
      VersionedPolicies{version, TopicPolicies(queue_, read_rules(result))});
  const detail::Lock lock(mutex_);
  known_ = now;
  return now;
}

std::optional<TimePoint> KnownPolicies::next_due(const TopicSelection& topics,
                                                 std::optional<TimePoint> due,
                                                 std::optional<TimePoint> test_time) {
  if (last()->policies.limits().empty()) return due;
  const Parameters values = Parameters().add(to_string(queue_)).add(test_time);
  const Result result = run_alone(pool_, select_with_time_, values, Exchange::changes_nothing);
  const TopicPolicies policies(queue_, read_rules(result));
  const ClaimAllowance allowance(policies, sql::spent_of(policies, read_stored(result)),
                                 result.time(0, 4));
  return allowance.next_due(topics, due);
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
      save_{"policy_save", names.fill(R"sql(
INSERT INTO {topic_policy} (queue, pattern, is_exact, policy)
VALUES ($1::text, $2::text, $3::integer, $4::text)
ON CONFLICT (queue, pattern, is_exact) DO UPDATE SET policy = excluded.policy)sql")},
      advance_{"policy_advance", names.fill("UPDATE {policy_version} SET version = version + 1")} {}

std::vector<TopicRule> PostgresqlPolicies::do_rules(QueueKind queue) {
  return read_rules(run_alone(pool_, select_, rules_of(queue), Exchange::changes_nothing));
}

TopicPolicy PostgresqlPolicies::do_update(QueueKind queue, const TopicPattern& pattern,
                                          const TopicPolicyChange& change,
                                          const PolicyOptions& /*options*/) {
  TopicPolicy after = in_transaction(pool_, [&](Transaction& transaction) {
    const Parameters nothing;
    const Parameters all = rules_of(queue);
    const std::array before{Command{&lock_, &nothing}, Command{&select_, &all}};
    const std::vector<TopicRule> rules = read_rules(transaction.run_all(before).back());
    TopicPolicy policy = policy_after(rules, pattern, change);
    const Parameters key = key_of(queue, pattern);
    Parameters rule = key_of(queue, pattern);
    rule.add(sql::to_json(policy));
    const std::array commands{policy.empty() ? Command{&delete_, &key} : Command{&save_, &rule},
                              Command{&advance_, &nothing}};
    transaction.commit(commands);
    return policy;
  });
  tell_(queue);
  return after;
}

bool PostgresqlPolicies::do_remove(QueueKind queue, const TopicPattern& pattern,
                                   const PolicyOptions& /*options*/) {
  const bool removed = in_transaction(pool_, [&](Transaction& transaction) {
    const Parameters nothing;
    const Parameters key = key_of(queue, pattern);
    const std::array remove{Command{&lock_, &nothing}, Command{&delete_, &key}};
    if (transaction.run_all(remove).back().changed() == 0) return false;
    const std::array advance{Command{&advance_, &nothing}};
    transaction.commit(advance);
    return true;
  });
  if (removed) tell_(queue);
  return removed;
}

}  // namespace oncebox::postgresql
