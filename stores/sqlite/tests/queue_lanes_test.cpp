// That a claim finds the lanes of its topics, and that the topics of others cost it nothing.

#include "queue_lanes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "oncebox/testing/temporary_folder.hpp"
#include "queue_report.hpp"
#include "queue_table.hpp"
#include "schema.hpp"

namespace oncebox::sqlite {
namespace {

constexpr TimePoint kNow{Duration{1'000'000}};

/// A file with one queue, in one transaction.
class QueueLanesTest : public ::testing::Test {
 protected:
  QueueLanesTest() {
    migrate(connection_);
    connection_.execute("BEGIN IMMEDIATE");
    table_.begin_call();
    sqlite3_progress_handler(connection_.handle(), 1, &QueueLanesTest::count_step, &steps_);
  }
  ~QueueLanesTest() override { connection_.execute("ROLLBACK"); }

  void enqueue(const std::string& topic, int priority = 0) {
    const std::string id = std::to_string(++messages_);
    ASSERT_TRUE(table_.insert({.key = {"shop", id}, .topic = topic, .priority = priority}, kNow));
  }

  /// Topics of others, each with a message that is ready.
  void enqueue_others(int from, int to) {
    for (int i = from; i < to; ++i) enqueue("other." + std::to_string(i));
  }

  /// What a process does for a claim that has just begun to work, in instructions of SQLite.
  int steps_of_claim(const TopicSelection& topics, std::size_t expected) {
    TopicNumbers fresh_topics(connection_);
    QueueTable fresh(connection_, "inbox", fresh_topics, {.keys_per_segment = 1'000'000});
    const ClaimRequest request{.owner = OwnerToken::generate(), .limit = 10, .topics = topics};
    const TopicPolicies no_rules(QueueKind::inbox);
    ClaimAllowance allowance(no_rules, {}, kNow);
    steps_ = 0;
    EXPECT_EQ(fresh.best_ready(request, allowance, kNow).size(), expected);
    return steps_;
  }
  int steps_of_next_due(const TopicSelection& topics) {
    steps_ = 0;
    EXPECT_FALSE(read_next_due(connection_, "inbox", topics, kNow));
    return steps_;
  }

  static int count_step(void* steps) {
    ++*static_cast<int*>(steps);
    return 0;
  }

  testing::TemporaryFolder folder_;
  Connection connection_{ConnectionOptions{.path = folder_.file("queue.db")}};
  TopicNumbers topics_{connection_};
  QueueTable table_{connection_, "inbox", topics_, {.keys_per_segment = 1'000'000}};
  int messages_ = 0;
  int steps_ = 0;
};

TEST_F(QueueLanesTest, TopicsOfOthersCostAClaimNothing) {
  RecordProperty("requirement", "R-20");
  enqueue("mail.sent");
  enqueue("order.paid");
  const std::vector<TopicSelection> selections{
      {.only = {"order.paid"}},
      {.only = {"order.*"}},
      {.only = {"order.paid", "order.*", "invoice.sent", "order.none"}},
      {.only = {"order.*"}, .except = {"order.p", "order.x*"}}};
  enqueue_others(0, 10);
  std::vector<int> few;
  for (const TopicSelection& topics : selections) {
    few.push_back(steps_of_claim(topics, 1));
    few.push_back(steps_of_next_due(topics));
  }
  enqueue_others(10, 20'000);
  std::vector<int> many;
  for (const TopicSelection& topics : selections) {
    many.push_back(steps_of_claim(topics, 1));
    many.push_back(steps_of_next_due(topics));
  }
  EXPECT_EQ(many, few);
}

TEST_F(QueueLanesTest, NamesOfThePastCostAClaimNothing) {
  RecordProperty("requirement", "R-20");
  for (int i = 0; i < 10; ++i) (void)topics_.number_of(Topic(fmt::format("order.{}", i)));
  enqueue("order.paid");
  const int few = steps_of_claim({.only = {"order.*"}}, 1);
  for (int i = 10; i < 20'000; ++i) (void)topics_.number_of(Topic(fmt::format("order.{}", i)));
  EXPECT_EQ(steps_of_claim({.only = {"order.*"}}, 1), few);
}

TEST_F(QueueLanesTest, MessagesBehindTheFirstOnesCostAClaimNothing) {
  RecordProperty("requirement", "R-20");
  for (int i = 0; i < 20; ++i) enqueue("order.paid");
  const int few = steps_of_claim({}, 10);
  for (int i = 0; i < 5'000; ++i) enqueue("order.paid");
  EXPECT_EQ(steps_of_claim({}, 10), few);
}

TEST_F(QueueLanesTest, ClaimOfEverythingNeedsNoNames) {
  RecordProperty("requirement", "R-20");
  enqueue_others(0, 1'000);
  const int all = steps_of_claim({}, 10);
  EXPECT_LT(steps_of_claim({.except = {"other.1"}}, 10), all + 100);
  EXPECT_GT(steps_of_claim({.except = {"other.1*"}}, 10), all + 1'000) << "it takes names to tell";
}

TEST_F(QueueLanesTest, LanesOfTheSelectedTopicsAreFoundAndNoOthers) {
  RecordProperty("requirement", "R-20");
  const std::vector<std::string> names{"a", "a.", "a.b", "a.b.c", "a.\xC3\xBF", "a/", "b", "*"};
  const std::vector<TopicPattern> patterns{"*",  "a",  "a*",   "a.*",         "a.b",
                                           "b*", "c*", "none", "a.\xC3\xBF*", Topic("*")};
  std::map<std::string, std::set<std::int64_t>> stored;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const int priority : {0, 5, -3}) {
      if (i % 3 == 0 && priority != 0) continue;
      enqueue(names[i], priority);
      enqueue(names[i], priority);
      stored[names[i]].insert(-priority);
    }
  }
  std::mt19937 random(17);
  const auto some = [&](int most) {
    std::vector<TopicPattern> chosen;
    for (auto count = random() % static_cast<unsigned>(most + 1); count > 0; --count) {
      chosen.push_back(patterns[random() % patterns.size()]);
    }
    return chosen;
  };
  LaneWalk lanes(connection_, "inbox");
  for (int round = 0; round < 2'000; ++round) {
    const TopicSelection topics{.only = some(4), .except = some(3)};
    std::multiset<std::pair<std::string, std::int64_t>> found;
    for (const LaneHead& head : lanes.heads(topics_.names(), topics)) {
      found.emplace(topics_.names().name_of(head.topic).str(), head.rank);
    }
    std::multiset<std::pair<std::string, std::int64_t>> expected;
    for (const auto& [name, ranks] : stored) {
      if (!topics.matches(name)) continue;
      for (const std::int64_t rank : ranks) expected.emplace(name, rank);
    }
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

TEST(BoundedMapTest, KeepsAsManyAsItMayAndNotAlwaysTheSame) {
  BoundedMap<int, int> map(100);
  for (int i = 0; i < 1'000; ++i) map.put(i, i * i);
  int known = 0;
  int old = 0;
  for (int i = 0; i < 1'000; ++i) {
    const int* const value = map.find(i);
    if (value == nullptr) continue;
    EXPECT_EQ(*value, i * i);
    ++known;
    if (i < 900) ++old;
  }
  EXPECT_EQ(known, 100);
  EXPECT_GT(old, 0) << "one at a time makes room";
  EXPECT_LT(old, 100);
  map.put(999, 1);
  EXPECT_EQ(*map.find(999), 1);
  map.clear();
  EXPECT_EQ(map.find(999), nullptr);
}

}  // namespace
}  // namespace oncebox::sqlite
