// Who is told that messages die, and when.

#include "oncebox/operate/dead_notices.hpp"

#include <gmock/gmock.h>

#include "expect_error.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class NotingSink final : public DeadNoticeSink {
 public:
  void on_notice(const DeadNotice& notice) noexcept override { notices.push_back(notice); }
  std::vector<DeadNotice> notices;
};

class DeadNoticesTest : public OnEachStore {
 protected:
  /// What is told of at this look: "error threshold count".
  std::vector<std::string> look() {
    sink_.notices.clear();
    const QueueStats stats = store_->inbox_operator().stats();
    notices_.on_look({name_, "inbox", store_->inbox_operator(), stats, clock_.now()});
    std::vector<std::string> told;
    for (const DeadNotice& notice : sink_.notices) {
      told.push_back(notice.group.error + " " + std::to_string(notice.threshold) + " " +
                     std::to_string(notice.group.count));
    }
    return told;
  }
  void die(int count, const std::string& error) {
    for (int i = 0; i < count; ++i) {
      bury(store_->inbox(), message_of("m" + std::to_string(++sent_)), error);
    }
  }

  int sent_ = 0;
  const std::string name_ = "a";
  NotingSink sink_;
  DeadNotices notices_{{.thresholds = {1, 10, 100}, .cooldown = minutes{15}}, sink_};
  std::unique_ptr<Store> store_ = make_store();
};
ONCEBOX_ON_EACH_STORE(DeadNoticesTest);

TEST_P(DeadNoticesTest, TheFirstOfAGroupIsToldOnce) {
  RecordProperty("requirement", "R-30");
  EXPECT_THAT(look(), IsEmpty());
  die(1, "no address for 7");
  EXPECT_THAT(look(), ElementsAre("no address for <n> 1 1"));
  const DeadNotice& notice = sink_.notices.front();
  EXPECT_EQ(notice.store, "a");
  EXPECT_EQ(notice.queue, "inbox");
  EXPECT_EQ(notice.group.id.topic, Topic("t"));
  EXPECT_EQ(notice.group.sample, (MessageKey{"shop", "m1"}));
  EXPECT_EQ(notice.group.last_at, clock_.now());
  EXPECT_THAT(look(), IsEmpty());
  die(1, "no address for 8");
  EXPECT_THAT(look(), IsEmpty());
  die(1, "timeout");
  EXPECT_THAT(look(), ElementsAre("timeout 1 1"));
}

TEST_P(DeadNoticesTest, WhatWasDeadBeforeIsCountedButNotTold) {
  die(9, "x");
  clock_.advance(minutes{5} + Duration{1});
  EXPECT_THAT(look(), IsEmpty());
  die(1, "x");
  EXPECT_THAT(look(), ElementsAre("x 10 10"));
}

TEST_P(DeadNoticesTest, WhatDiedShortlyBeforeTheFirstLookIsTold) {
  RecordProperty("requirement", "R-30");
  die(2, "old");
  die(11, "both");
  clock_.advance(minutes{10});
  die(1, "both");
  die(1, "new");
  clock_.advance(minutes{5});
  EXPECT_THAT(look(), UnorderedElementsAre("both 10 12", "new 1 1"));
  EXPECT_THAT(look(), IsEmpty());
}

TEST_P(DeadNoticesTest, OfManyGroupsThoseWithTheMostDeathsAreToldAndHowManyOthersThereAre) {
  RecordProperty("requirement", "R-30");
  (void)look();
  // A part that varies and is neither a number nor an id makes every death a group.
  const auto varying = [](int i) {
    return "no such user " +
           std::string{static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26)};
  };
  for (int i = 0; i < 300; ++i) die(1, varying(i));
  die(3, "timeout");
  const std::vector<std::string> told = look();
  ASSERT_EQ(told.size(), 20U);
  EXPECT_EQ(told.front(), "timeout 1 3");
  EXPECT_EQ(sink_.notices.back().more_groups, 281U);
  EXPECT_EQ(sink_.notices.front().more_groups, 0U);
  EXPECT_THAT(look(), IsEmpty()) << "nor are they told one by one later";
  for (int i = 300; i < 320; ++i) die(1, varying(i));
  EXPECT_EQ(look().size(), 20U);
  EXPECT_EQ(sink_.notices.back().more_groups, 0U);
}

TEST_P(DeadNoticesTest, GroupsThatAreTooManyToBeRememberedAreCountedAsOthers) {
  (void)look();
  std::vector<Message> messages;
  std::vector<Mark> marks;
  for (int i = 0; i < 1'500; ++i) {
    const std::string id = "g" + std::to_string(i);
    messages.push_back(message_of(id, "topic-" + std::to_string(i)));
    marks.push_back({.key = messages.back().key, .as = MarkAs::dead, .error = "x"});
  }
  store_->inbox().enqueue(messages);
  store_->inbox().mark(marks);
  EXPECT_EQ(look().size(), 20U);
  EXPECT_EQ(sink_.notices.back().more_groups, 1'480U);
}

TEST_P(DeadNoticesTest, ThresholdsAreToldAfterTheCooldownTheHighestOnly) {
  (void)look();
  die(1, "x");
  EXPECT_THAT(look(), ElementsAre("x 1 1"));
  die(9, "x");
  EXPECT_THAT(look(), IsEmpty());
  clock_.advance(minutes{14});
  die(95, "x");
  EXPECT_THAT(look(), IsEmpty());
  clock_.advance(minutes{1});
  EXPECT_THAT(look(), ElementsAre("x 100 105"));
  clock_.advance(hours{1});
  die(5, "x");
  EXPECT_THAT(look(), IsEmpty());
}

TEST_P(DeadNoticesTest, DeathsOfTheSameTimeBeforeAndAfterALookAreAllCountedOnce) {
  (void)look();
  die(4, "x");
  EXPECT_THAT(look(), ElementsAre("x 1 4"));
  die(5, "x");  // at the very same time
  (void)look();
  (void)look();
  clock_.advance(minutes{20});
  die(1, "x");
  EXPECT_THAT(look(), ElementsAre("x 10 10"));
}

TEST_P(DeadNoticesTest, ADeathThatIsRecordedLateIsNotMissed) {
  (void)look();
  die(1, "x");
  (void)look();
  // Another process, whose clock is behind.
  clock_.advance(-seconds{50});
  die(1, "y");
  clock_.advance(seconds{50});
  EXPECT_THAT(look(), ElementsAre("y 1 1"));
}

TEST_P(DeadNoticesTest, OneThatIsRevivedAndDiesAgainCountsAgain) {
  (void)look();
  die(1, "x");
  (void)look();
  for (int i = 0; i < 9; ++i) {
    store_->inbox_operator().revive(std::vector<MessageKey>{{"shop", "m1"}});
    clock_.advance(minutes{2});
    store_->inbox().mark(Mark{.key = {"shop", "m1"}, .as = MarkAs::dead, .error = "x"});
    const auto told = look();
    if (i < 8) {
      EXPECT_THAT(told, IsEmpty()) << i;
    } else {
      EXPECT_THAT(told, ElementsAre("x 10 10"));
    }
  }
}

TEST_P(DeadNoticesTest, AGroupThatWasQuietForLongBeginsAnew) {
  (void)look();
  die(1, "x");
  EXPECT_THAT(look(), ElementsAre("x 1 1"));
  clock_.advance(hours{24});
  die(1, "x");
  EXPECT_THAT(look(), ElementsAre("x 1 1"));
}

TEST_P(DeadNoticesTest, ManyAreCountedOverManyPages) {
  (void)look();
  std::vector<Message> messages;
  std::vector<Mark> marks;
  for (int i = 0; i < 2'500; ++i) {
    messages.push_back(message_of("many" + std::to_string(i)));
    marks.push_back({.key = messages.back().key, .as = MarkAs::dead, .error = "x"});
  }
  store_->inbox().enqueue(messages);
  store_->inbox().mark(marks);
  EXPECT_THAT(look(), ElementsAre("x 100 2500"));
}

TEST_P(DeadNoticesTest, AStoreThatCameBackIsLookedAtAsForTheFirstTime) {
  (void)look();
  die(1, "x");
  clock_.advance(hours{1});
  notices_.on_removed("a");
  EXPECT_THAT(look(), IsEmpty());
}

TEST(DeadNoticesOptionsTest, MustMakeSense) {
  DeadNoticesOptions{}.validate();
  expect_error(ErrorCode::invalid_argument,
               [] { DeadNoticesOptions{.thresholds = {0, 1}}.validate(); });
  expect_error(ErrorCode::invalid_argument,
               [] { DeadNoticesOptions{.thresholds = {1, 5, 5}}.validate(); });
  expect_error(ErrorCode::out_of_range, [] { DeadNoticesOptions{.thresholds = {}}.validate(); });
  expect_error(ErrorCode::out_of_range,
               [] { DeadNoticesOptions{.cooldown = Duration{-1}}.validate(); });
  expect_error(ErrorCode::out_of_range,
               [] { DeadNoticesOptions{.recent = Duration{-1}}.validate(); });
  expect_error(ErrorCode::out_of_range, [] { DeadNoticesOptions{.max_notices = 0}.validate(); });
}

}  // namespace
}  // namespace oncebox
