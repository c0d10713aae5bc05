#include "sqlite_policies.hpp"

#include <algorithm>
#include <string_view>

#include "oncebox/sql/policy_json.hpp"

namespace oncebox::sqlite {

namespace {

constexpr std::string_view kSelectRules = R"sql(
SELECT pattern, is_exact, policy, spent_until FROM oncebox_topic_policy WHERE queue = ?1)sql";

std::vector<sql::StoredRule> read_stored(Statement& select, QueueKind queue) {
  const ResetLater reset(select);
  select.bind(1, to_string(queue));
  std::vector<sql::StoredRule> rules;
  while (select.step()) rules.push_back(sql::read_stored_rule(select));
  return rules;
}

std::vector<TopicRule> read_rules(Statement& select, QueueKind queue) {
  return sql::rules_of(read_stored(select, queue));
}

std::size_t place_of(QueueKind queue) noexcept { return static_cast<std::size_t>(queue); }

}  // namespace

StoredRules::StoredRules(Connection& connection, QueueKind queue) : policies(queue) {
  Statement select = connection.prepare(kSelectRules);
  const std::vector<sql::StoredRule> stored = read_stored(select, queue);
  if (stored.empty()) return;
  policies = TopicPolicies(queue, sql::rules_of(stored));
  spent = sql::spent_of(policies, stored);
}

SqlitePolicies::SqlitePolicies(Connection& writer_connection, Writer& writer, ReaderPool& readers)
    : connection_(writer_connection),
      writer_(writer),
      readers_(readers),
      version_(writer_connection.prepare("SELECT version FROM oncebox_policy_version")),
      select_(writer_connection.prepare(kSelectRules)),
      delete_(writer_connection.prepare(R"sql(
DELETE FROM oncebox_topic_policy WHERE queue = ?1 AND pattern = ?2 AND is_exact = ?3)sql")),
      insert_(writer_connection.prepare(R"sql(
INSERT INTO oncebox_topic_policy (queue, pattern, is_exact, policy) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue, pattern, is_exact) DO UPDATE SET policy = excluded.policy)sql")),
      advance_(
          writer_connection.prepare("UPDATE oncebox_policy_version SET version = version + 1")),
      spend_(writer_connection.prepare(R"sql(
UPDATE oncebox_topic_policy SET spent_until = ?4
 WHERE queue = ?1 AND pattern = ?2 AND is_exact = ?3)sql")) {}

const TopicPolicies& SqlitePolicies::current(QueueKind queue) {
  std::int64_t version = 0;
  {
    const ResetLater reset(version_);
    if (version_.step()) version = version_.int64(0);
  }
  if (version != known_version_) {
    known_version_.reset();
    for (const QueueKind kind : kQueueKinds) {
      policies_[place_of(kind)] = TopicPolicies(kind, read_rules(select_, kind));
    }
    known_version_ = version;
  }
  return policies_[place_of(queue)];
}

std::vector<LimitUse> SqlitePolicies::spent(QueueKind queue) {
  const TopicPolicies& policies = current(queue);
  if (policies.limits().empty()) return {};
  return sql::spent_of(policies, read_stored(select_, queue));
}

void SqlitePolicies::note_spent(QueueKind queue, std::span<const LimitUse> uses) {
  const std::vector<LimitedTopics>& limits = current(queue).limits();
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (!limits[i].limits.rate) continue;
    const TopicPattern& pattern = limits[i].pattern;
    const ResetLater reset(spend_);
    spend_.bind(1, to_string(queue))
        .bind(2, std::string_view(pattern.str()))
        .bind(3, static_cast<int>(pattern.is_exact()))
        .bind(4, uses[i].spent_until_ns)
        .run();
  }
}

std::vector<TopicRule> SqlitePolicies::do_rules(QueueKind queue) {
  return readers_.run([&](Connection& reader) {
    Statement select = reader.prepare(kSelectRules);
    return read_rules(select, queue);
  });
}

TopicPolicy SqlitePolicies::do_update(QueueKind queue, const TopicPattern& pattern,
                                      const TopicPolicyChange& change,
                                      const PolicyOptions& /*options*/) {
  TopicPolicy after = writer_.run(Flush::required, [&] {
    TopicPolicy policy = policy_after(read_rules(select_, queue), pattern, change);
    if (policy.empty()) {
      remove_rule(queue, pattern);
    } else {
      save_rule(queue, pattern, policy);
    }
    advance_.run();
    return policy;
  });
  if (tell_) tell_(queue);
  return after;
}

bool SqlitePolicies::do_remove(QueueKind queue, const TopicPattern& pattern,
                               const PolicyOptions& /*options*/) {
  const bool removed = writer_.run(Flush::required, [&] {
    remove_rule(queue, pattern);
    const bool was_there = connection_.changes() > 0;
    if (was_there) advance_.run();
    return was_there;
  });
  if (removed && tell_) tell_(queue);
  return removed;
}

void SqlitePolicies::remove_rule(QueueKind queue, const TopicPattern& pattern) {
  const ResetLater reset(delete_);
  delete_.bind(1, to_string(queue))
      .bind(2, std::string_view(pattern.str()))
      .bind(3, static_cast<int>(pattern.is_exact()))
      .run();
}

void SqlitePolicies::save_rule(QueueKind queue, const TopicPattern& pattern,
                               const TopicPolicy& policy) {
  const std::string text = sql::to_json(policy);
  const ResetLater reset(insert_);
  insert_.bind(1, to_string(queue))
      .bind(2, std::string_view(pattern.str()))
      .bind(3, static_cast<int>(pattern.is_exact()))
      .bind(4, std::string_view(text))
      .run();
}

}  // namespace oncebox::sqlite
