// Messages that share a row. What the calls mean is shown by the conformance suite; here each kind
// of call meets a run, and it is looked at how the tables stand for it afterwards.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "oncebox/error.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "run_sql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

class RunsTest : public ::testing::Test {
 protected:
  static Message message(int number, const char* topic = "order.created") {
    return {.key = {"shop", std::to_string(number)}, .topic = topic, .payload = "{}"};
  }

  void enqueue(int count) {
    std::vector<Message> messages;
    for (int i = 0; i < count; ++i) messages.push_back(message(i));
    queue().enqueue(messages);
  }

  std::vector<ClaimedMessage> claim(std::size_t limit = 1'000) {
    return queue().claim({.owner = owner_, .limit = limit});
  }

  void acknowledge(const std::vector<ClaimedMessage>& claimed,
                   SettleStatus expected = SettleStatus::settled) {
    std::vector<Settlement> settlements;
    for (const ClaimedMessage& one : claimed) settlements.push_back({.delivery = delivery_of(one)});
    for (const SettleOutcome& outcome : queue().settle(settlements)) EXPECT_EQ(outcome, expected);
  }

  // A transaction that has locked the first ready run, until this is destroyed.
  class Held {
   public:
    explicit Held(const TestSpace& space) : connection_(space.options()) {
      const std::string table = space.schema() + ".oncebox_inbox_run";
      run("BEGIN");
      run("SELECT FROM " + table + " WHERE first_id IN (SELECT min(first_id) FROM " + table +
          " WHERE stage = 1) FOR UPDATE");
    }
    // The server would take its time to notice that the connection is closed.
    ~Held() {
      try {
        run("ROLLBACK");
      } catch (const Error&) {
        // Then that has to do.
      }
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    void run(const std::string& sql) {
      connection_.run_text(sql, Exchange::changes_nothing, deadline_in(1min));
    }

    Connection connection_;
  };

  [[nodiscard]] std::int64_t rows(const std::string& table) {
    return space_.number("SELECT count(*) FROM {schema}.oncebox_inbox_" + table);
  }

  // Every message has one state, and every state a message.
  void expect_sound() {
    EXPECT_EQ(space_.number("SELECT count(*) FROM (SELECT id, count(s.id) AS states "
                            "FROM {schema}.oncebox_inbox_message "
                            "LEFT JOIN {schema}.oncebox_inbox_state s USING (id) "
                            "GROUP BY id HAVING count(s.id) <> 1) wrong"),
              0);
    EXPECT_EQ(rows("state"), rows("message"));
    EXPECT_EQ(space_.number("SELECT coalesce(sum(count), 0)::bigint - (SELECT count(*) "
                            "FROM {schema}.oncebox_inbox_state WHERE stage = 4) "
                            "FROM {schema}.oncebox_inbox_done_count"),
              0);
  }

  [[nodiscard]] QueueStore& queue() { return store_.inbox(); }
  [[nodiscard]] TopicStats stats() { return store_.inbox_operator().stats().total(); }
  [[nodiscard]] MessageRecord find(int number) {
    return queue().find(MessageKey{"shop", std::to_string(number)}).value();
  }

  TestSpace space_;
  testing::FakeClock clock_;
  PostgresqlStore store_{space_.options(), clock_};
  const OwnerToken owner_ = OwnerToken::generate();
};

TEST_F(RunsTest, BatchHasOneRowForManyMessagesFromArrivalToEnd) {
  RecordProperty("requirement", "IBX-122");
  enqueue(200);
  EXPECT_EQ(rows("run"), 4);
  const std::vector<ClaimedMessage> claimed = claim();
  ASSERT_EQ(claimed.size(), 200U);
  EXPECT_EQ(rows("run"), 4);
  acknowledge(claimed);
  EXPECT_EQ(rows("run"), 0);
  EXPECT_EQ(rows("work") + rows("done"), 0);
  EXPECT_LE(rows("done_run"), 4);
  EXPECT_EQ(stats().done, 200U);
  expect_sound();
}

TEST_F(RunsTest, ClaimsOfAnySizeHandOutEachMessageOnceAndInOrder) {
  RecordProperty("requirement", "IBX-030,IBX-039,R-17");
  enqueue(200);
  int next = 0;
  for (const std::size_t limit : {1U, 63U, 2U, 64U, 5U, 1'000U}) {
    for (const ClaimedMessage& one : claim(limit)) {
      EXPECT_EQ(one.message.key.message_id.str(), std::to_string(next++));
    }
    expect_sound();
  }
  EXPECT_EQ(next, 200);
  EXPECT_EQ(stats().leased, 200U);
}

TEST_F(RunsTest, AcknowledgementsInAnyOrderLeaveTheOthersLeased) {
  RecordProperty("requirement", "IBX-044,IBX-047,R-15");
  enqueue(70);
  const std::vector<ClaimedMessage> claimed = claim();
  std::vector<ClaimedMessage> odd;
  std::vector<ClaimedMessage> even;
  for (std::size_t i = 0; i < claimed.size(); ++i) (i % 2 == 1 ? odd : even).push_back(claimed[i]);
  acknowledge(odd);
  EXPECT_EQ(stats().done, 35U);
  EXPECT_EQ(stats().leased, 35U);
  expect_sound();
  acknowledge(odd, SettleStatus::lease_lost);
  std::reverse(even.begin(), even.end());
  for (const ClaimedMessage& one : even) acknowledge({one});
  EXPECT_EQ(stats().done, 70U);
  EXPECT_EQ(rows("run") + rows("work"), 0);
  expect_sound();
}

TEST_F(RunsTest, VerdictsOfAllKindsInOneCall) {
  RecordProperty("requirement", "IBX-044,IBX-060");
  enqueue(10);
  const std::vector<ClaimedMessage> claimed = claim();
  std::vector<Settlement> settlements;
  for (const ClaimedMessage& one : claimed) settlements.push_back({.delivery = delivery_of(one)});
  settlements[3].verdict = Abandon{.error = "later", .delay = 1min};
  settlements[5].verdict = Fail{.error = "never"};
  settlements[7].verdict = Release{};
  for (const SettleOutcome& outcome : queue().settle(settlements)) {
    EXPECT_EQ(outcome, SettleStatus::settled);
  }
  const TopicStats total = stats();
  EXPECT_EQ(total.done, 7U);
  EXPECT_EQ(total.waiting, WaitingCounts{.backoff = 1});
  EXPECT_EQ(total.dead, 1U);
  EXPECT_EQ(total.ready, 1U);
  expect_sound();
}

TEST_F(RunsTest, DuplicateOfOneLeavesTheOthersInTheirRun) {
  RecordProperty("requirement", "R-06,R-17");
  enqueue(64);
  EXPECT_EQ(queue().enqueue(message(30)).status, EnqueueStatus::duplicate);
  EXPECT_EQ(find(30).history.duplicates, 1);
  EXPECT_EQ(find(31).history.duplicates, 0);
  EXPECT_EQ(rows("run"), 2) << "before it and behind it";
  EXPECT_EQ(rows("work"), 1);
  expect_sound();
  const std::vector<ClaimedMessage> claimed = claim();
  ASSERT_EQ(claimed.size(), 64U);
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    EXPECT_EQ(claimed[i].message.key.message_id.str(), std::to_string(i)) << "in its old place";
  }
  queue().enqueue(message(10));
  expect_sound();
  acknowledge(claimed);
  EXPECT_EQ(stats().done, 64U);
  queue().enqueue(message(50));
  EXPECT_EQ(find(50).history.duplicates, 1);
  EXPECT_EQ(find(50).status, Status::done);
  EXPECT_EQ(stats().done, 64U);
  expect_sound();
}

TEST_F(RunsTest, BatchThatIsKnownInPartIsStoredAsAWhole) {
  RecordProperty("requirement", "R-06");
  enqueue(5);
  std::vector<Message> messages;
  for (int i = 3; i < 9; ++i) messages.push_back(message(i));
  const std::vector<EnqueueOutcome> outcomes = queue().enqueue(messages);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].status, i < 2 ? EnqueueStatus::duplicate : EnqueueStatus::accepted);
  }
  EXPECT_EQ(stats().ready, 9U);
  expect_sound();
}

TEST_F(RunsTest, CallWithAllKindsOfMessagesGivesEachTheRowItNeeds) {
  RecordProperty("requirement", "R-17,R-28,IBX-032");
  std::vector<Message> messages;
  for (int i = 0; i < 12; ++i) messages.push_back(message(i));
  messages[3].topic = "order.paid";
  messages[5].due_at = clock_.now() + 1min;
  messages[7].expires_at = clock_.now() + 1h;
  messages[9].priority = 5;
  queue().enqueue(messages);
  EXPECT_EQ(rows("run"), 2) << "the first three, and the last two";
  EXPECT_EQ(rows("work"), 7);
  expect_sound();
  std::string order;
  for (const ClaimedMessage& one : claim()) order += one.message.key.message_id.str() + " ";
  EXPECT_EQ(order, "9 0 1 2 3 4 6 7 8 10 11 ");
  clock_.advance(1min);
  EXPECT_EQ(stats().ready, 12U);
}

TEST_F(RunsTest, LapsedRunIsHandedOutAgain) {
  RecordProperty("requirement", "R-15,R-23");
  enqueue(100);
  const std::vector<ClaimedMessage> first = claim();
  clock_.advance(1min);
  EXPECT_EQ(stats().ready, 100U);
  const std::vector<ClaimedMessage> second = claim();
  ASSERT_EQ(second.size(), 100U);
  for (std::size_t i = 0; i < second.size(); ++i) {
    EXPECT_EQ(second[i].message.key, first[i].message.key);
    EXPECT_GT(second[i].delivery, first[i].delivery);
  }
  acknowledge(first, SettleStatus::lease_lost);
  acknowledge(second);
  EXPECT_EQ(stats().done, 100U);
  expect_sound();
}

TEST_F(RunsTest, ExtendingOneKeepsItWhenTheOthersLapse) {
  RecordProperty("requirement", "IBX-033");
  enqueue(10);
  const std::vector<ClaimedMessage> claimed = claim();
  EXPECT_TRUE(queue().extend({.delivery = delivery_of(claimed[4]), .lease = 10min}).locked_until);
  clock_.advance(1min);
  EXPECT_EQ(claim().size(), 9U);
  acknowledge({claimed[4]});
  EXPECT_EQ(stats().done, 1U);
  EXPECT_EQ(stats().leased, 9U);
  expect_sound();
}

TEST_F(RunsTest, ExtensionsThatMeetInOneRunLoseNoLease) {
  RecordProperty("requirement", "IBX-033,IBX-106");
  constexpr std::size_t kThreads = 3;
  enqueue(64);
  const std::vector<ClaimedMessage> claimed = claim();
  std::atomic<int> lost = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t i = thread; i < claimed.size(); i += kThreads) {
          const bool acknowledges = i % 4 == 3;
          if (acknowledges) {
            acknowledge({claimed[i]});
          } else if (!queue().extend({.delivery = delivery_of(claimed[i])}).locked_until) {
            ++lost;
          }
        }
      });
    }
  }
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(stats().leased, 48U);
  expect_sound();
}

TEST_F(RunsTest, LapsedPiecesOfARunComeBackTogether) {
  RecordProperty("requirement", "R-23");
  enqueue(64);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(claim(1).size(), 1U);
  clock_.advance(1min);
  EXPECT_EQ(queue().reap({.limit = 50}).released, 50U);
  EXPECT_EQ(claim().size(), 64U);
  expect_sound();
}

TEST_F(RunsTest, RunThatSomebodyHoldsDoesNotStopTheOthers) {
  RecordProperty("requirement", "IBX-106");
  enqueue(200);
  {
    const Held held(space_);
    EXPECT_EQ(claim(10).size(), 10U);
    EXPECT_EQ(claim().size(), 126U);
    EXPECT_TRUE(claim().empty()) << "and whoever finds nothing else does not wait for ever";
  }
  EXPECT_EQ(claim().size(), 64U);
  expect_sound();
}

TEST_F(RunsTest, SmallPiecesFillAClaim) {
  RecordProperty("requirement", "IBX-030");
  for (int i = 0; i < 200; i += 2) {
    queue().enqueue(std::vector<Message>{message(i), message(i + 1)});
  }
  EXPECT_EQ(rows("run"), 100);
  const auto claim_bytes = [&](std::size_t bytes) {
    return queue().claim({.owner = owner_, .limit = 60, .max_bytes = bytes}).size();
  };
  EXPECT_EQ(claim_bytes(50), 25U) << "of two bytes each";
  EXPECT_EQ(claim_bytes(101), 50U) << "also when it has to look further";
  EXPECT_EQ(claim(60).size(), 60U);
  EXPECT_EQ(claim().size(), 65U);
  expect_sound();
}

TEST_F(RunsTest, ManySmallPiecesAreHandedOutInOrderAndWithoutPause) {
  RecordProperty("requirement", "IBX-030,R-17");
  int number = 0;
  for (int call = 0; call < 150; ++call) {
    std::vector<Message> messages;
    for (int i = 0; i < 5; ++i) {  // two runs of two, and one by itself
      messages.push_back(message(number++, i / 2 == 1 ? "order.paid" : "order.created"));
    }
    queue().enqueue(messages);
  }
  for (int i = 0; i < 100; ++i) {  // less urgent, and behind them
    queue().enqueue(
        {.key = {"shop", std::to_string(number++)}, .topic = "order.created", .priority = -1});
  }
  clock_.advance(10s);
  int next = 0;
  while (next < number) {
    const std::vector<ClaimedMessage> claimed = claim(100);
    ASSERT_FALSE(claimed.empty()) << next;
    for (const ClaimedMessage& one : claimed) {
      ASSERT_EQ(one.message.key.message_id.str(), std::to_string(next++));
    }
  }
}

TEST_F(RunsTest, ShortRunThatSomebodyHeldIsNotPassedOver) {
  RecordProperty("requirement", "IBX-030,IBX-106");
  for (int first : {0, 20, 84}) {
    std::vector<Message> messages;
    for (int i = first; i < (first == 0 ? 20 : first + 64); ++i) messages.push_back(message(i));
    queue().enqueue(messages);
  }
  clock_.advance(10s);
  ASSERT_EQ(claim(1).size(), 1U);  // from now on claims know where they left off
  {
    const Held held(space_);
    EXPECT_EQ(claim(100).size(), 100U);
  }
  EXPECT_EQ(claim(100).size(), 47U);
  expect_sound();
}

TEST_F(RunsTest, SettlementsThatMeetInTheSameRunsGetThrough) {
  RecordProperty("requirement", "IBX-044,IBX-106");
  constexpr std::size_t kThreads = 4;
  enqueue(192);
  const std::vector<ClaimedMessage> claimed = claim();
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t i = thread; i < claimed.size() / 2; i += kThreads) {
          // Two messages of different runs, one of them not just acknowledged.
          std::vector<Settlement> pair{{.delivery = delivery_of(claimed[i])},
                                       {.delivery = delivery_of(claimed[claimed.size() - 1 - i])}};
          if (i % 8 < kThreads) pair[i % 2].verdict = Release{};
          for (const SettleOutcome& outcome : queue().settle(pair)) {
            EXPECT_EQ(outcome, SettleStatus::settled);
          }
        }
      });
    }
  }
  EXPECT_EQ(stats().leased, 0U);
  EXPECT_EQ(stats().done + stats().ready, 192U);
  expect_sound();
}

TEST_F(RunsTest, BytesEndAClaimWithinARun) {
  RecordProperty("requirement", "IBX-030");
  enqueue(100);  // of two bytes each
  const auto claim_bytes = [&](std::size_t bytes) {
    return queue().claim({.owner = owner_, .limit = 1'000, .max_bytes = bytes}).size();
  };
  EXPECT_EQ(claim_bytes(1), 1U) << "one at least";
  EXPECT_EQ(claim_bytes(20), 10U);
  EXPECT_EQ(claim_bytes(21), 10U);
  EXPECT_EQ(claim_bytes(120), 60U) << "over the end of a run";
  EXPECT_EQ(claim_bytes(1'000), 19U);
  expect_sound();
}

TEST_F(RunsTest, CleaningUpByTwoAtOnceRemovesEachMessageWithItsState) {
  RecordProperty("requirement", "R-22");
  enqueue(1'000);
  acknowledge(claim());
  clock_.advance(1h);
  std::atomic<std::size_t> removed = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 40; ++i) {
          removed +=
              store_.inbox_operator().cleanup({.done_retention = 1min, .limit = 10}).done_removed;
        }
      });
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(removed), 1'000 - rows("message"));
  expect_sound();
}

TEST_F(RunsTest, NumbersOfDeliveriesAreNeverShared) {
  RecordProperty("requirement", "R-15");
  enqueue(200);
  queue().enqueue(message(1'000));
  std::vector<DeliveryNumber> numbers;
  for (const std::size_t limit : {10U, 100U, 1'000U}) {
    for (const ClaimedMessage& one : claim(limit)) numbers.push_back(one.delivery);
  }
  ASSERT_EQ(numbers.size(), 201U);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end()), numbers.end());
}

TEST_F(RunsTest, RetentionRemovesAsManyAsAsked) {
  RecordProperty("requirement", "R-22");
  enqueue(100);
  acknowledge(claim());
  clock_.advance(1h);
  QueueOperator& by_hand = store_.inbox_operator();
  EXPECT_EQ(by_hand.cleanup({.done_retention = 2h, .limit = 10}).done_removed, 0U);
  EXPECT_EQ(by_hand.cleanup({.done_retention = 1min, .limit = 10}).done_removed, 10U);
  EXPECT_EQ(rows("message"), 90);
  EXPECT_EQ(stats().done, 90U);
  expect_sound();
  EXPECT_EQ(by_hand.cleanup({.done_retention = 1min, .limit = 1'000}).done_removed, 90U);
  EXPECT_EQ(rows("message") + rows("done_run"), 0);
}

TEST_F(RunsTest, TopicsOfOneCallKeepTheirOrderAndAreChosenFrom) {
  RecordProperty("requirement", "R-17,R-20");
  std::vector<Message> messages;
  for (int i = 0; i < 40; ++i) {
    messages.push_back(message(i, i / 10 % 2 == 0 ? "order.created" : "order.paid"));
  }
  queue().enqueue(messages);
  EXPECT_EQ(rows("run"), 4);
  const auto paid =
      queue().claim({.owner = owner_, .limit = 15, .topics = {.only = {"order.paid"}}});
  ASSERT_EQ(paid.size(), 15U);
  EXPECT_EQ(paid.front().message.key.message_id.str(), "10");
  EXPECT_EQ(paid.back().message.key.message_id.str(), "34");
  EXPECT_EQ(claim().size(), 25U);
  expect_sound();
}

// Who meets another claim of the same run waits for what that one leaves; but not for long, since
// that one may have stopped. On a busy machine it may look so.
TEST_F(RunsTest, NobodyGoesAwayEmptyWhileARunHasMessages) {
  RecordProperty("requirement", "IBX-030,IBX-106");
  constexpr int kThreads = 8;
  constexpr int kMessages = 256;
  enqueue(kMessages);
  std::atomic<int> claimed = 0;
  std::atomic<int> too_soon = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        const OwnerToken owner = OwnerToken::generate();
        for (int mine = 0; mine < kMessages / kThreads;) {
          const auto began = std::chrono::steady_clock::now();
          const auto batch = queue().claim({.owner = owner, .limit = 1});
          mine += static_cast<int>(batch.size());
          claimed += static_cast<int>(batch.size());
          if (!batch.empty() || std::chrono::steady_clock::now() - began >= 100ms) continue;
          ++too_soon;
          return;
        }
      });
    }
  }
  EXPECT_EQ(too_soon, 0);
  EXPECT_EQ(claimed, kMessages);
  expect_sound();
}

}  // namespace
}  // namespace oncebox::postgresql
