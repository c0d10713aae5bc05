// Single scenes, each of which shows one rule. `claim_cycle_model_test.cpp` tries everything.

#include "oncebox/engine/claim_cycle.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace oncebox::engine {
namespace {

using Do = ClaimCycle::Do;
using Claimed = ClaimCycle::Claimed;

class ClaimCycleTest : public ::testing::Test {
 protected:
  static constexpr TimePoint kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

  [[nodiscard]] ClaimCycle::Now now() const {
    return {kStart + at_, SteadyTime{std::chrono::hours{1}} + at_};
  }
  [[nodiscard]] static TimePoint time(Duration at) { return kStart + at; }
  void advance_to(Duration at) { at_ = at; }

  [[nodiscard]] Do next() const { return cycle_.next(now().steady).what; }
  /// When the wait ends, since the start.
  [[nodiscard]] Duration until() const {
    const SteadyTime until = cycle_.next(now().steady).until;
    return std::chrono::duration_cast<Duration>(until - SteadyTime{std::chrono::hours{1}});
  }
  void begin() { cycle_.begin(next(), now()); }
  void find(const ClaimCycle::Found& found) {
    begin();
    cycle_.found(found, now());
  }
  /// Claims, and asks and claims, in vain.
  void become_idle(std::optional<TimePoint> due = {}) {
    while (cycle_.next(now().steady).claims()) find({.due = due});
  }

  Duration at_{0};
  ClaimCycle cycle_{
      {.poll = Duration{500}, .longest_poll = Duration{2'000}, .longest_rest = Duration{400}}};
};

TEST_F(ClaimCycleTest, BeginsWithAClaimAndAsksBeforeTheLastOne) {
  EXPECT_EQ(next(), Do::claim);
  find({});
  EXPECT_EQ(next(), Do::ask_due_and_claim);
  find({});
  EXPECT_EQ(next(), Do::wait);
  EXPECT_EQ(until(), Duration{500});
}

TEST_F(ClaimCycleTest, GoesOnWithoutAQuestionWhileThereIsMore) {
  for (int i = 0; i < 3; ++i) {
    find({.claimed = Claimed::full});
    EXPECT_EQ(next(), Do::claim);
  }
  find({.claimed = Claimed::some});
  EXPECT_EQ(next(), Do::ask_due_and_claim);
}

TEST_F(ClaimCycleTest, NewsEndTheWait) {
  become_idle();
  cycle_.on_news();
  EXPECT_EQ(next(), Do::claim);
}

TEST_F(ClaimCycleTest, NewsDuringTheLastClaimAreNotForgotten) {
  find({});
  begin();
  EXPECT_EQ(next(), Do::wait) << "one claim at a time";
  cycle_.on_news();
  cycle_.found({}, now());
  EXPECT_EQ(next(), Do::claim);
}

TEST_F(ClaimCycleTest, WaitsForTheDueTimeThatTheStoreTold) {
  become_idle(time(Duration{30}));
  EXPECT_EQ(until(), Duration{30});
  advance_to(Duration{29});
  EXPECT_EQ(next(), Do::wait);
  advance_to(Duration{30});
  EXPECT_EQ(next(), Do::ask_due_and_claim);
}

TEST_F(ClaimCycleTest, ADueTimeIsStaleAfterAClaimThatFoundSomething) {
  find({});
  find({.claimed = Claimed::full, .due = time(Duration{30})});
  advance_to(Duration{40});
  find({});
  EXPECT_EQ(next(), Do::ask_due_and_claim) << "the answer of the first question is used up";
  find({.due = time(Duration{60})});
  EXPECT_EQ(until(), Duration{60});
}

TEST_F(ClaimCycleTest, ADueTimeThatComesDuringTheClaimIsNotWaitedFor) {
  find({});
  begin();
  advance_to(Duration{10});
  cycle_.found({.due = time(Duration{5})}, now());
  EXPECT_EQ(next(), Do::ask_due_and_claim);
}

TEST_F(ClaimCycleTest, AStoreWhoseClockIsBehindIsAskedLessAndLessOften) {
  become_idle(time(Duration{0}));
  EXPECT_EQ(until(), Duration{20});
  for (const Duration later : {Duration{60}, Duration{140}, Duration{300}, Duration{620}}) {
    advance_to(until());
    find({.due = time(Duration{0})});
    EXPECT_EQ(until(), later);
  }
  advance_to(until());
  find({.due = time(Duration{0})});
  EXPECT_EQ(until(), Duration{620 + 500}) << "the poll comes first";
}

TEST_F(ClaimCycleTest, NewsInVainDoNotMakeItSlowerForAClockThatIsBehind) {
  become_idle(time(Duration{0}));
  for (int i = 0; i < 10; ++i) {
    cycle_.on_news();
    become_idle(time(Duration{0}));
  }
  EXPECT_EQ(until(), Duration{20});
}

TEST_F(ClaimCycleTest, AClockThatWasBehindIsAskedSoonTheNextTime) {
  become_idle(time(Duration{0}));
  advance_to(until());
  find({.claimed = Claimed::some, .due = time(Duration{0})});
  find({.due = time(Duration{0})});
  EXPECT_EQ(until() - at_, Duration{20}) << "something was found";
  advance_to(until());
  find({.due = time(at_ + Duration{10})});
  advance_to(until());
  find({.due = time(at_)});
  EXPECT_EQ(until() - at_, Duration{20}) << "the clock had caught up";
}

TEST_F(ClaimCycleTest, ADueTimeThatIsToldShortensTheWaitAndClaimsNothing) {
  become_idle();
  cycle_.on_due(time(Duration{300}), now());
  cycle_.on_due(time(Duration{400}), now());
  EXPECT_EQ(next(), Do::wait);
  EXPECT_EQ(until(), Duration{300});
}

TEST_F(ClaimCycleTest, ADueTimeThatIsToldDuringTheLastClaimIsNotForgotten) {
  find({});
  begin();
  cycle_.on_due(time(Duration{300}), now());
  cycle_.found({}, now());
  EXPECT_EQ(until(), Duration{300});
}

TEST_F(ClaimCycleTest, AfterAQuestionTheStoreKnowsWhatWasToldBefore) {
  cycle_.on_due(time(Duration{300}), now());
  become_idle(time(Duration{350}));
  EXPECT_EQ(until(), Duration{350});
}

TEST_F(ClaimCycleTest, TheLeaseOfAnAnsweredOfferDoesNotPostponeThePoll) {
  become_idle();
  advance_to(Duration{400});
  cycle_.on_due(time(Duration{30'400}), now());
  EXPECT_EQ(next(), Do::wait);
  EXPECT_EQ(until(), Duration{500});
}

TEST_F(ClaimCycleTest, PollsBackOffUntilSomethingIsFound) {
  become_idle();
  for (const Duration pause : {Duration{1'000}, Duration{2'000}, Duration{2'000}}) {
    advance_to(until());
    EXPECT_EQ(next(), Do::ask_due_and_claim);
    become_idle();
    EXPECT_EQ(until() - at_, pause);
  }
  advance_to(until());
  find({.claimed = Claimed::some});
  become_idle();
  EXPECT_EQ(until() - at_, Duration{500});
}

TEST_F(ClaimCycleTest, OnlyAPollMakesPollsRarer) {
  become_idle(time(Duration{30}));
  advance_to(Duration{30});
  become_idle();
  EXPECT_EQ(until() - at_, Duration{500}) << "something was due";
  cycle_.on_news();
  become_idle();
  EXPECT_EQ(until() - at_, Duration{500}) << "there was news";
  cycle_.on_look();
  become_idle();
  EXPECT_EQ(until() - at_, Duration{500}) << "somebody wanted it";
}

TEST_F(ClaimCycleTest, RestsAfterAFailureWhateverTheNews) {
  begin();
  EXPECT_EQ(cycle_.failed(now()), Duration{100});
  cycle_.on_news();
  cycle_.on_due(time(Duration{10}), now());
  cycle_.on_eased();
  EXPECT_EQ(next(), Do::rest);
  EXPECT_EQ(until(), Duration{100});
  advance_to(Duration{100});
  EXPECT_EQ(next(), Do::ask_due_and_claim) << "a question needs less than a claim";
}

TEST_F(ClaimCycleTest, RestsGrowUntilACallSucceeds) {
  for (const Duration rest : {Duration{100}, Duration{200}, Duration{400}, Duration{400}}) {
    begin();
    EXPECT_EQ(cycle_.failed(now()), rest);
    advance_to(until());
  }
  find({});
  cycle_.on_news();
  begin();
  EXPECT_EQ(cycle_.failed(now()), Duration{100});
}

TEST_F(ClaimCycleTest, ALookEndsTheRest) {
  begin();
  cycle_.failed(now());
  cycle_.on_look();
  EXPECT_EQ(next(), Do::ask_due_and_claim);
}

TEST_F(ClaimCycleTest, ALookDuringAClaimIsFollowedByAnother) {
  begin();
  cycle_.on_look();
  EXPECT_EQ(cycle_.failed(now()), Duration{0});
  EXPECT_EQ(next(), Do::ask_due_and_claim);
  begin();
  cycle_.on_look();
  cycle_.found({}, now());
  EXPECT_EQ(next(), Do::ask_due_and_claim);
  find({});
  EXPECT_EQ(next(), Do::wait);
}

TEST_F(ClaimCycleTest, ALimitThatEasesEndsTheWaitOfThoseThatLackedRoom) {
  become_idle();
  cycle_.on_eased();
  EXPECT_EQ(next(), Do::wait) << "it lacked no room";
  cycle_.on_look();
  find({.lacks_room = true});
  cycle_.on_eased();
  EXPECT_EQ(next(), Do::claim);
}

TEST_F(ClaimCycleTest, ALimitThatEasesDuringTheClaimIsNotForgotten) {
  find({});
  begin();
  cycle_.on_eased();
  cycle_.found({.lacks_room = true}, now());
  EXPECT_EQ(next(), Do::claim);
}

TEST_F(ClaimCycleTest, ALimitThatEasesDoesNotEndTheRest) {
  find({.lacks_room = true});
  begin();
  cycle_.failed(now());
  cycle_.on_eased();
  EXPECT_EQ(next(), Do::rest);
}

TEST_F(ClaimCycleTest, WaitsForTheTimeAtWhichALimitHasRoom) {
  find({});
  find({.lacks_room = true, .room_at = time(Duration{70}), .due = time(Duration{90})});
  EXPECT_EQ(until(), Duration{70});
}

TEST_F(ClaimCycleTest, AClockThatIsBehindDoesNotHideTheTimeAtWhichALimitHasRoom) {
  find({});
  find({.lacks_room = true, .room_at = time(Duration{10}), .due = time(Duration{0})});
  EXPECT_EQ(until(), Duration{10});
}

TEST_F(ClaimCycleTest, ADueTimeInAThousandYearsIsNoTimeAtAll) {
  cycle_ = ClaimCycle({.poll = std::chrono::days{2},
                       .longest_poll = std::chrono::days{2},
                       .longest_rest = Duration{400}});
  become_idle(kMaxTime);
  EXPECT_EQ(until(), std::chrono::days{1}) << "then it asks again";
}

TEST_F(ClaimCycleTest, ADriverMayAlwaysAsk) {
  cycle_.begin(Do::ask_due_and_claim, now());
  cycle_.found({.due = time(Duration{30})}, now());
  EXPECT_EQ(next(), Do::wait);
  EXPECT_EQ(until(), Duration{30});
}

}  // namespace
}  // namespace oncebox::engine
