#include "sqlite_policies.hpp"

#include <algorithm>
#include <string_view>

#include "oncebox/sql/policy_json.hpp"

namespace oncebox::sqlite {

namespace {

constexpr std::string_view kSelectRules =
    "SELECT pattern, is_exact, policy FROM oncebox_topic_policy WHERE queue = ?1";

std::vector<TopicRule> read_rules(Statement& select, QueueKind queue) {
  const ResetLater reset(select);
  select.bind(1, to_string(queue));
  std::vector<TopicRule> rules;
  while (select.step()) rules.push_back(sql::read_topic_rule(select));
  return rules;
}

std::size_t place_of(QueueKind queue) noexcept { return queue == QueueKind::inbox ? 0 : 1; }

}  // namespace

SqlitePolicies::SqlitePolicies(Connection& writer_connection, Writer& writer, ReaderPool& readers)
    : connection_(writer_connection),
      writer_(writer),
      readers_(readers),
      version_(writer_connection.prepare("SELECT version FROM oncebox_policy_version")),
      select_(writer_connection.prepare(kSelectRules)),
      delete_(writer_connection.prepare(R"sql(
DELETE FROM oncebox_topic_policy WHERE queue = ?1 AND pattern = ?2 AND is_exact = ?3)sql")),
      insert_(writer_connection.prepare(R"sql(
INSERT INTO oncebox_topic_policy (queue, pattern, is_exact, policy) VALUES (?1, ?2, ?3, ?4))sql")),
      advance_(
          writer_connection.prepare("UPDATE oncebox_policy_version SET version = version + 1")) {}

const TopicPolicies& SqlitePolicies::current(QueueKind queue) {
  std::int64_t version = 0;
  {
    const ResetLater reset(version_);
    if (version_.step()) version = version_.int64(0);
  }
  if (version != known_version_) {
    known_version_.reset();
    for (const QueueKind kind : {QueueKind::inbox, QueueKind::outbox}) {
      policies_[place_of(kind)] = TopicPolicies(kind, read_rules(select_, kind));
    }
    known_version_ = version;
  }
  return policies_[place_of(queue)];
}

std::vector<TopicRule> SqlitePolicies::do_rules(QueueKind queue) {
  return readers_.run([&](Connection& reader) {
    Statement select = reader.prepare(kSelectRules);
    return read_rules(select, queue);
  });
}

TopicPolicy SqlitePolicies::do_update(QueueKind queue, const TopicPattern& pattern,
                                      const TopicPolicy& changes) {
  TopicPolicy after = writer_.run(Flush::required, [&] {
    TopicPolicy policy = policy_after(read_rules(select_, queue), pattern, changes);
    remove_rule(queue, pattern);
    if (!policy.empty()) insert_rule(queue, pattern, policy);
    advance_.run();
    return policy;
  });
  if (tell_) tell_(queue);
  return after;
}

bool SqlitePolicies::do_remove(QueueKind queue, const TopicPattern& pattern) {
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

void SqlitePolicies::insert_rule(QueueKind queue, const TopicPattern& pattern,
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
