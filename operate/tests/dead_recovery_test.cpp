// Revival at a rate, and removal, of a group or of what matches.

#include "oncebox/operate/dead_recovery.hpp"

#include <gmock/gmock.h>

#include <utility>

#include "expect_error.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using Revived = ReviveOutcome;

class DeadRecoveryTest : public OnEachStore {
 protected:
  /// So many, m0 and so on, of topic "t".
  void bury_some(int count, const std::string& error = "broken") {
    std::vector<Message> messages;
    std::vector<Mark> marks;
    for (int i = 0; i < count; ++i) {
      messages.push_back(message_of("m" + std::to_string(i)));
      marks.push_back({.key = messages.back().key, .as = MarkAs::dead, .error = error});
    }
    store_->inbox().enqueue(messages);
    store_->inbox().mark(marks);
  }
  /// After how many milliseconds m0 and so on can be claimed.
  [[nodiscard]] std::vector<std::int64_t> due(int count) {
    std::vector<std::int64_t> all;
    for (int i = 0; i < count; ++i) {
      const auto record = store_->inbox().find(MessageKey{"shop", "m" + std::to_string(i)});
      all.push_back(record->eligible_at ? (*record->eligible_at - clock_.now()).count() : -1);
    }
    return all;
  }
  [[nodiscard]] std::size_t dead() { return queue_.count({.statuses = {Status::dead}}); }

  std::unique_ptr<Store> store_ = make_store();
  QueueOperator& queue_ = store_->inbox_operator();
};
ONCEBOX_ON_EACH_STORE(DeadRecoveryTest);

TEST_P(DeadRecoveryTest, AGroupComesBackAndNothingElse) {
  RecordProperty("requirement", "R-30");
  bury(store_->inbox(), message_of("a", "order"), "order 1 is late");
  bury(store_->inbox(), message_of("b", "order"), "order 2 is late");
  bury(store_->inbox(), message_of("c", "order"), "no address");
  bury(store_->inbox(), message_of("d", "payment"), "order 3 is late");
  const DeadGroupId group{.topic = Topic("order"),
                          .fingerprint = error_fingerprint("order 1 is late")};
  EXPECT_EQ(count_dead(queue_, {.group = group}), 2U);
  EXPECT_EQ(revive_dead(queue_, {.group = group}, {.reason = "faster now"}),
            (RevivalResult{.count = 2}));
  EXPECT_EQ(dead(), 2U);
  const auto revived = store_->inbox().find(MessageKey{"shop", "b"});
  EXPECT_EQ(revived->status, Status::processing);
  EXPECT_EQ(revived->revivals.last_reason, "faster now");
  EXPECT_EQ(revive_dead(queue_, {.group = group}), RevivalResult{});
}

TEST_P(DeadRecoveryTest, AGroupIsNarrowedByAFilter) {
  bury(store_->inbox(), message_of("a"), "late");
  bury(store_->inbox(), {.key = {"other", "b"}, .topic = "t"}, "late");
  const DeadGroupId group{.topic = Topic("t"), .fingerprint = error_fingerprint("late")};
  EXPECT_EQ(revive_dead(queue_, {.group = group, .filter = {.source = Source("other")}}).count, 1U);
  EXPECT_EQ(store_->inbox().find(MessageKey{"shop", "a"})->status, Status::dead);
}

TEST_P(DeadRecoveryTest, TheyAreDueAtTheRateInTheOrderInWhichTheyWereStored) {
  bury_some(5);
  EXPECT_EQ(revive_dead(queue_, {}, {.delay = seconds{1}}, {.per_second = 0.5}),
            (RevivalResult{.count = 5, .lasts = seconds{9}}));
  EXPECT_THAT(due(5), ElementsAre(1'000, 3'000, 5'000, 7'000, 9'000));
}

TEST_P(DeadRecoveryTest, TheLastOfThemHasTheWholeOfItsPolicyToo) {
  RecordProperty("requirement", "R-24,R-31");
  store_->policies().update(QueueKind::inbox, "*",
                            {.max_attempts = 1, .give_up_after = seconds{9}});
  bury_some(2);
  (void)revive_dead(queue_, {}, {}, {.per_second = 0.1});
  (void)store_->inbox().claim({.owner = OwnerToken::generate()});
  clock_.advance(seconds{10});
  const ClaimedMessage last = store_->inbox().claim({.owner = OwnerToken::generate()}).at(0);
  EXPECT_EQ(last.message.key.message_id, "m1");
  EXPECT_EQ(store_->inbox().settle({delivery_of(last), Abandon{}}).death, std::nullopt);
}

TEST_P(DeadRecoveryTest, ThoseOfASecondAreDueTogether) {
  bury_some(7);
  EXPECT_EQ(plan_revival(queue_, {}, {}, {.per_second = 3}),
            (RevivalResult{.count = 7, .lasts = seconds{2}}));
  EXPECT_EQ(dead(), 7U);
  EXPECT_EQ(revive_dead(queue_, {}, {}, {.per_second = 3}),
            (RevivalResult{.count = 7, .lasts = seconds{2}}));
  EXPECT_THAT(due(7), ElementsAre(0, 0, 0, 1'000, 1'000, 1'000, 2'000));
}

TEST_P(DeadRecoveryTest, ManyAreRevivedInSlicesAndNoMoreThanTheLimit) {
  bury_some(2'500);
  EXPECT_EQ(revive_dead(queue_, {.limit = 2'400}, {}, {.per_second = 2'000}),
            (RevivalResult{.count = 2'400, .lasts = seconds{1}}));
  EXPECT_EQ(dead(), 100U);
  EXPECT_EQ(due(2'400).back(), 1'000);
}

TEST_P(DeadRecoveryTest, KeysAreRevivedAtTheRateAndThoseThatAreNotDeadTakeNoPlace) {
  bury_some(3);
  store_->inbox().enqueue(message_of("alive"));
  const std::vector<MessageKey> keys = {
      {"shop", "m0"}, {"shop", "alive"}, {"shop", "nobody"}, {"shop", "m2"}, {"shop", "m1"}};
  EXPECT_THAT(revive_keys(queue_, keys, {}, {.per_second = 1}),
              ElementsAre(Revived::revived, Revived::not_dead, Revived::unknown, Revived::revived,
                          Revived::revived));
  EXPECT_THAT(due(3), ElementsAre(0, 2'000, 1'000));
}

TEST_P(DeadRecoveryTest, ItEndsWhenNobodyWaitsForIt) {
  bury_some(10);
  const auto until_six_are_left = [&] { return dead() > 6; };
  EXPECT_EQ(revive_dead(queue_, {}, {}, {.per_second = 2}, until_six_are_left).count, 4U);
  EXPECT_EQ(dead(), 6U);
}

TEST_P(DeadRecoveryTest, AWalkEndsWhenNobodyWaitsForItAlsoWhereNoneIsMeant) {
  bury_some(3'000, "broken");
  const DeadGroupId others{.topic = Topic("t"), .fingerprint = error_fingerprint("missing")};
  const DeadGroupId all{.topic = Topic("t"), .fingerprint = error_fingerprint("broken")};
  int asked = 0;
  const auto once = [&] { return ++asked < 2; };
  EXPECT_EQ(count_dead(queue_, {.group = all}, once), 1'000U);
  EXPECT_EQ(std::exchange(asked, 0), 2);
  EXPECT_EQ(count_dead(queue_, {.group = others}, once), 0U);
  EXPECT_EQ(std::exchange(asked, 0), 2) << "it went on after the first page";
  EXPECT_EQ(plan_revival(queue_, {.group = all}, {}, {.per_second = 1'000}, once).count, 1'000U);
  EXPECT_EQ(std::exchange(asked, 0), 2);
  EXPECT_EQ(revive_dead(queue_, {.group = all}, {}, {.per_second = 1'000}, once), RevivalResult{});
  asked = 0;
  EXPECT_EQ(purge_dead(queue_, {.group = others}, {}, once), 0U);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(dead(), 3'000U);
}

TEST_P(DeadRecoveryTest, ARevivalThatMakesNoSenseIsRefusedBeforeAnythingChanges) {
  bury_some(40);
  for (const double rate : {0.0, -1.0, 0.0001, 2e6, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error(ErrorCode::out_of_range,
                 [&] { revive_dead(queue_, {}, {}, {.per_second = rate}); });
  }
  // More than a year.
  expect_error(ErrorCode::out_of_range, [&] {
    revive_dead(queue_, {}, {.delay = limits::kMaxDelay - seconds{30'000}}, {.per_second = 0.001});
  });
  expect_error(ErrorCode::out_of_range, [&] { revive_dead(queue_, {.limit = 0}); });
  expect_error(ErrorCode::invalid_argument,
               [&] { revive_dead(queue_, {.filter = {.statuses = {Status::done}}}); });
  EXPECT_EQ(dead(), 40U);
}

TEST_P(DeadRecoveryTest, AGroupIsPurgedAndNothingElse) {
  bury_some(1'200, "broken 7");
  bury(store_->inbox(), message_of("other"), "missing");
  const DeadGroupId group{.topic = Topic("t"), .fingerprint = error_fingerprint("broken 8")};
  EXPECT_EQ(purge_dead(queue_, {.group = group, .limit = 200}), 200U);
  EXPECT_EQ(purge_dead(queue_, {.group = group}), 1'000U);
  EXPECT_EQ(dead(), 1U);
  EXPECT_TRUE(store_->inbox().find(MessageKey{"shop", "other"}));
  EXPECT_FALSE(store_->inbox().find(MessageKey{"shop", "m7"}));
}

}  // namespace
}  // namespace oncebox
