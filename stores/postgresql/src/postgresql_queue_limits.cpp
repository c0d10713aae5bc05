// Claims from a queue with topics whose concurrency or rate is limited.

#include <algorithm>
#include <string_view>

#include "oncebox/driver/claim_allowance.hpp"
#include "oncebox/sql/policy_json.hpp"
#include "postgresql_queue.hpp"

namespace oncebox::postgresql {

/// One claim in a transaction that the caller commits. The limits hold for all processes together,
/// so such claims come one after the other: each locks the rules first.
class PostgresqlQueue::LimitedClaim {
 public:
  LimitedClaim(const PostgresqlQueue& queue, const RuledClaim& claim,
               const ClaimFloors::Floors& floors, Transaction& transaction)
      : queue_(queue), claim_(claim), floors_(floors), transaction_(transaction) {}

  /// When something has to be reaped first, or the rules have changed, the answer says so, and
  /// nothing is claimed.
  ClaimAnswer run() {
    ClaimAllowance allowance = read_allowance();
    ClaimAnswer answer{.is_clean = true, .policies = claim_.rules.version};
    std::size_t bytes = 0;
    for (bool is_first = true;; is_first = false) {
      const std::optional<TopicSelection> topics = allowance.among(claim_.request.topics);
      const std::size_t left = claim_.request.limit - answer.messages.size();
      // The first step also finds what has lapsed, though everything that is wanted is closed.
      if ((!topics && !is_first) || left == 0 || bytes >= claim_.request.max_bytes) break;
      Step step = take_step(allowance, topics.value_or(TopicSelection{.except = {"*"}}),
                            {.limit = left,
                             .candidates = candidates_,
                             .bytes_left = claim_.request.max_bytes - bytes,
                             .takes_one_at_least = answer.messages.empty()});
      if (!step.answer.is_clean || step.answer.policies != claim_.rules.version) {
        if (answer.messages.empty()) return std::move(step.answer);
        break;  // what was claimed before is right by the rules of then
      }
      for (const StoredMessage& message : step.answer.messages) {
        bytes += bytes_of(*message.content);
      }
      append(answer, step.answer);
      if (!step.met_a_limit && !look_further(step.answer)) break;
    }
    std::sort(answer.messages.begin(), answer.messages.end(), comes_first);
    if (!answer.messages.empty()) spend(allowance);
    return answer;
  }

  /// To be sent with the commit.
  [[nodiscard]] std::vector<Command> last_commands() const {
    std::vector<Command> commands;
    for (const Parameters& values : spent_) commands.push_back({&queue_.sql_.spend_limit, &values});
    return commands;
  }

 private:
  struct Step {
    ClaimAnswer answer;
    bool met_a_limit = false;
  };

  ClaimAllowance read_allowance() {
    const TopicPolicies& policies = claim_.rules.policies;
    const Parameters queue = Parameters().add(queue_.name_).add(queue_.test_time());
    const Parameters nothing;
    std::vector<Command> commands{{&queue_.sql_.lock_limits, &queue}};
    if (policies.limits_concurrency()) commands.push_back({&queue_.sql_.leased_topics, &nothing});
    const std::vector<Result> results = transaction_.run_all(commands);

    std::vector<sql::StoredRule> stored;
    for (int row = 0; row < results[0].rows(); ++row) {
      stored.push_back(sql::read_stored_rule(ResultRow(results[0], row)));
    }
    std::vector<LimitUse> uses = sql::spent_of(policies, stored);
    if (results.size() > 1) {
      for (int row = 0; row < results[1].rows(); ++row) {
        count_leased(uses, policies, results[1].bytes(row, 0),
                     static_cast<std::size_t>(results[1].int64(row, 1)));
      }
    }
    const TimePoint now = stored.empty() ? TimePoint{} : results[0].time(0, 4);
    return {policies, std::move(uses), now};
  }

  // A claim that took too much of a limited topic is undone, and claims less.
  Step take_step(ClaimAllowance& allowance, const TopicSelection& topics, ClaimWindow window) {
    ClaimRequest request = claim_.request;
    request.topics = topics;
    bool met_a_limit = false;
    for (;;) {
      Parameters parameters;
      const Parameters nothing;
      const std::array commands{
          Command{&queue_.sql_.savepoint, &nothing},
          queue_.claim_command({request, claim_.rules, claim_.worker, claim_.reaped}, window,
                               floors_, parameters)};
      ClaimAnswer answer = read_claim(transaction_.run_all(commands).back(), claim_.worker);
      std::vector<std::string_view> taken_topics;
      for (const StoredMessage& message : answer.messages) {
        taken_topics.push_back(message.content->topic.str());
      }
      ClaimAllowance after = allowance;
      const std::size_t taken = after.take_first(taken_topics);
      if (taken == answer.messages.size()) {
        allowance = std::move(after);
        floors_.lapsed = kMaxTime;  // it is clean, and stays so for this claim
        return {std::move(answer), met_a_limit};
      }
      met_a_limit = true;
      window.limit = taken;
      transaction_.run(queue_.sql_.rollback_to_savepoint, nothing);
    }
  }

  static void append(ClaimAnswer& answer, ClaimAnswer& more) {
    answer.now = more.now;
    std::ranges::move(more.messages, std::back_inserter(answer.messages));
    std::ranges::move(more.runs, std::back_inserter(answer.runs));
  }

  // Not every run was looked at that could have been a candidate: so there may be more.
  bool look_further(const ClaimAnswer& answer) {
    constexpr std::size_t kWider = 4;
    if (!answer.has_more || candidates_ == limits::kMaxBatchItems) return false;
    candidates_ = std::min(candidates_ * kWider, limits::kMaxBatchItems);
    return true;
  }

  void spend(const ClaimAllowance& allowance) {
    const std::vector<LimitedTopics>& limits = claim_.rules.policies.limits();
    for (std::size_t i = 0; i < limits.size(); ++i) {
      if (!limits[i].limits.rate) continue;
      Parameters& values = spent_.emplace_back();
      values.add(queue_.name_).add(std::string_view(limits[i].pattern.str()));
      values.add(static_cast<std::int32_t>(limits[i].pattern.is_exact()));
      values.add(allowance.uses()[i].spent_until_ns);
    }
  }

  const PostgresqlQueue& queue_;
  const RuledClaim claim_;
  ClaimFloors::Floors floors_;
  Transaction& transaction_;
  std::size_t candidates_ = claim_.request.limit;
  std::vector<Parameters> spent_;
};

PostgresqlQueue::ClaimAnswer PostgresqlQueue::claim_within_limits(const RuledClaim& claim) {
  ClaimFloors::Floors floors = floors_.before_claim(claim.request.topics);
  ClaimAnswer answer = in_transaction(parts_.pool, [&](Transaction& transaction) {
    LimitedClaim limited(*this, claim, floors, transaction);
    ClaimAnswer claimed = limited.run();
    transaction.commit(limited.last_commands());
    return claimed;
  });
  if (answer.is_clean || answer.policies != claim.rules.version) return answer;

  const Overdue overdue = find_overdue_end(claim.rules.policies, floors.lapsed, claim.reaped);
  floors.lapsed = kMaxTime;
  ReapResult reaped;
  answer = in_rows(overdue.partitions, [&](RowBatch& rows, Transaction& transaction) {
    reaped = reap_in(rows, overdue, claim.rules.policies);
    rows.write(std::nullopt);
    LimitedClaim limited(*this, claim, floors, transaction);
    ClaimAnswer claimed = limited.run();
    transaction.commit(limited.last_commands());
    return claimed;
  });
  if (reaped.total() > 0) announcer_.soon();
  claim.reaped.add(std::move(reaped));
  return answer;
}

}  // namespace oncebox::postgresql
