// Work that is done one item after the other: room, order, failures and the end.

#include "oncebox/receive/mailbox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"

namespace oncebox {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

/// The first item waits in the gate; all are noted in the order in which they are handled.
class MailboxTest : public ::testing::Test {
 protected:
  using Numbers = Mailbox<int>;

  std::unique_ptr<Numbers> make(const MailboxOptions& options) {
    return std::make_unique<Numbers>(
        [this](int& item, const std::stop_token& stop) {
          began_.change([](int& count) { ++count; });
          if (item == 0) {
            const std::stop_callback asked(stop, [this] { gate_.open(); });
            gate_.pass();
          }
          if (item < 0) throw std::runtime_error("negative");
          handled_.change([&](auto& all) { all.push_back(item); });
        },
        options,
        Numbers::Callbacks{.on_dropped =
                               [this](int&& item, DropReason reason) {
                                 const int sign = reason == DropReason::stopped ? -1 : 1;
                                 dropped_.change([&](auto& all) { all.push_back(sign * item); });
                               },
                           .on_error =
                               [this](const int& item) {
                                 EXPECT_THROW(throw, std::runtime_error);
                                 failed_.change([&](auto& all) { all.push_back(item); });
                               }});
  }

  /// One whose handler is held up, and whose queue is full with 1 and 2.
  std::unique_ptr<Numbers> make_full(WhenFull when_full) {
    auto mailbox = make({.capacity = 2, .when_full = when_full});
    EXPECT_EQ(mailbox->post(0), PostOutcome::accepted);
    EXPECT_TRUE(began_.wait_for(1));
    EXPECT_EQ(mailbox->post(1), PostOutcome::accepted);
    EXPECT_EQ(mailbox->post(2), PostOutcome::accepted);
    return mailbox;
  }

  Gate gate_;
  Watched<int> began_{0};
  Watched<std::vector<int>> handled_;
  Watched<std::vector<int>> dropped_;  ///< negative: because the mailbox stopped
  Watched<std::vector<int>> failed_;
};

TEST_F(MailboxTest, HandlesItemsOneAfterTheOtherInTheirOrder) {
  RecordProperty("requirement", "PKT-07");
  constexpr int kSenders = 4;
  constexpr int kEach = 200;
  std::atomic<int> inside = 0;
  std::vector<int> last(kSenders, -1);
  Mailbox<std::pair<int, int>> mailbox(
      [&](auto& item, const std::stop_token&) {
        EXPECT_EQ(++inside, 1);
        EXPECT_EQ(last[static_cast<std::size_t>(item.first)] + 1, item.second);
        last[static_cast<std::size_t>(item.first)] = item.second;
        --inside;
      },
      {.capacity = 8, .when_full = WhenFull::wait});
  {
    std::latch start(kSenders);
    std::vector<std::jthread> senders;
    for (int sender = 0; sender < kSenders; ++sender) {
      senders.emplace_back([&, sender] {
        start.arrive_and_wait();
        for (int i = 0; i < kEach; ++i) mailbox.post({sender, i});
      });
    }
  }
  mailbox.wait_until_idle();
  EXPECT_EQ(mailbox.counters(),
            (MailboxCounters{.accepted = kSenders * kEach, .handled = kSenders * kEach}));
}

TEST_F(MailboxTest, RejectsWhatItHasNoRoomFor) {
  auto mailbox = make_full(WhenFull::reject);
  EXPECT_EQ(mailbox->post(3), PostOutcome::full);
  EXPECT_EQ(mailbox->counters(), (MailboxCounters{.accepted = 3, .refused = 1, .waiting = 2}));
  gate_.open();
  mailbox->wait_until_idle();
  EXPECT_THAT(handled_.get(), ElementsAre(0, 1, 2));
}

TEST_F(MailboxTest, RejectedItemStaysWithItsSender) {
  Gate gate;
  Mailbox<std::unique_ptr<int>> mailbox(
      [&](std::unique_ptr<int>&, const std::stop_token&) { gate.pass(); }, {.capacity = 1});
  mailbox.post(std::make_unique<int>(1));
  auto item = std::make_unique<int>(2);
  while (mailbox.post(std::move(item)) == PostOutcome::accepted) item = std::make_unique<int>(2);
  EXPECT_NE(item, nullptr);
  gate.open();
}

TEST_F(MailboxTest, DropsTheNewest) {
  auto mailbox = make_full(WhenFull::drop_newest);
  EXPECT_EQ(mailbox->post(3), PostOutcome::dropped);
  EXPECT_THAT(dropped_.get(), ElementsAre(3));
  gate_.open();
  mailbox->wait_until_idle();
  EXPECT_THAT(handled_.get(), ElementsAre(0, 1, 2));
  EXPECT_EQ(mailbox->counters(), (MailboxCounters{.accepted = 3, .handled = 3, .dropped = 1}));
}

TEST_F(MailboxTest, DropsTheOldest) {
  auto mailbox = make_full(WhenFull::drop_oldest);
  EXPECT_EQ(mailbox->post(3), PostOutcome::accepted);
  EXPECT_THAT(dropped_.get(), ElementsAre(1));
  gate_.open();
  mailbox->wait_until_idle();
  EXPECT_THAT(handled_.get(), ElementsAre(0, 2, 3));
  EXPECT_EQ(mailbox->counters(), (MailboxCounters{.accepted = 4, .handled = 3, .dropped = 1}));
}

TEST_F(MailboxTest, SenderWaitsForRoom) {
  auto mailbox = make_full(WhenFull::wait);
  auto posted = std::async(std::launch::async, [&] { return mailbox->post(3); });
  gate_.open();
  EXPECT_EQ(posted.get(), PostOutcome::accepted);
  mailbox->wait_until_idle();
  EXPECT_THAT(handled_.get(), ElementsAre(0, 1, 2, 3));
}

TEST_F(MailboxTest, SenderWaitsNoLongerThanItSaid) {
  auto mailbox = make_full(WhenFull::wait);
  EXPECT_EQ(mailbox->post(3, {.at_most = 1ms}), PostOutcome::full);
  std::stop_source stop;
  auto posted =
      std::async(std::launch::async, [&] { return mailbox->post(3, {.stop = stop.get_token()}); });
  stop.request_stop();
  EXPECT_EQ(posted.get(), PostOutcome::cancelled);
  EXPECT_EQ(mailbox->counters().refused, 2U);
  gate_.open();
}

TEST_F(MailboxTest, SenderThatWaitsIsToldOfTheStop) {
  auto mailbox = make_full(WhenFull::wait);
  auto posted = std::async(std::launch::async, [&] { return mailbox->post(3); });
  mailbox->stop_now();
  EXPECT_EQ(posted.get(), PostOutcome::stopped);
  EXPECT_EQ(mailbox->post(4), PostOutcome::stopped);
}

TEST_F(MailboxTest, HandlerThatPostsToItsOwnFullMailboxIsNotHeldUp) {
  Watched<std::vector<PostOutcome>> outcomes;
  std::unique_ptr<Numbers> mailbox;
  mailbox = std::make_unique<Numbers>(
      [&](int& item, const std::stop_token&) {
        if (item != 0) return;
        outcomes.change([&](auto& all) { all = {mailbox->post(1), mailbox->post(2)}; });
      },
      MailboxOptions{.capacity = 1, .when_full = WhenFull::wait});
  mailbox->post(0);
  ASSERT_TRUE(outcomes.wait([](const auto& all) { return all.size() == 2; }));
  EXPECT_THAT(outcomes.get(), ElementsAre(PostOutcome::accepted, PostOutcome::full));
}

TEST_F(MailboxTest, FailureOfOneItemEndsNothing) {
  auto mailbox = make({});
  for (const int item : {1, -2, 3}) mailbox->post(item);
  mailbox->wait_until_idle();
  EXPECT_THAT(handled_.get(), ElementsAre(1, 3));
  EXPECT_THAT(failed_.get(), ElementsAre(-2));
  EXPECT_EQ(mailbox->counters(), (MailboxCounters{.accepted = 3, .handled = 3, .failed = 1}));
}

TEST_F(MailboxTest, StopFinishesWhatWaits) {
  auto mailbox = make_full(WhenFull::reject);
  gate_.open();
  EXPECT_EQ(mailbox->stop(), 0U);
  EXPECT_THAT(handled_.get(), ElementsAre(0, 1, 2));
  EXPECT_THAT(dropped_.get(), ElementsAre());
  EXPECT_EQ(mailbox->post(3), PostOutcome::stopped);
  EXPECT_EQ(mailbox->stop(), 0U) << "may be called again";
}

TEST_F(MailboxTest, StopDropsWhatIsNotFinishedInTimeAndAsksTheHandlerToStop) {
  auto mailbox = make_full(WhenFull::reject);
  EXPECT_EQ(mailbox->stop({.finish_within = 1ms}), 2U) << "the stop token opens the gate";
  EXPECT_THAT(handled_.get(), ElementsAre(0));
  EXPECT_THAT(dropped_.get(), ElementsAre(-1, -2));
  EXPECT_EQ(mailbox->counters(), (MailboxCounters{.accepted = 3, .handled = 1, .dropped = 2}));
}

TEST_F(MailboxTest, HandlerMayStopItsMailbox) {
  Watched<bool> stopped{false};  // outlives the mailbox, whose handler uses it
  std::unique_ptr<Numbers> mailbox;
  mailbox = std::make_unique<Numbers>([&](int&, const std::stop_token&) {
    mailbox->stop();
    stopped.change([](bool& value) { value = true; });
  });
  mailbox->post(1);
  ASSERT_TRUE(stopped.wait_for(true));
  EXPECT_EQ(mailbox->post(2), PostOutcome::stopped);
}

TEST_F(MailboxTest, StopCallbacksOfAHandlerMayUseTheMailbox) {
  Gate gate;
  MailboxCounters seen;
  std::unique_ptr<Numbers> mailbox;
  mailbox = std::make_unique<Numbers>([&](int&, const std::stop_token& stop) {
    const std::stop_callback asked(stop, [&] {
      seen = mailbox->counters();
      gate.open();
    });
    began_.change([](int& count) { ++count; });
    gate.pass();
  });
  mailbox->post(1);
  ASSERT_TRUE(began_.wait_for(1));
  mailbox->stop_now();
  EXPECT_EQ(seen, (MailboxCounters{.accepted = 1}));
}

TEST_F(MailboxTest, HandlerThatWaitsForItselfIsToldSo) {
  Watched<bool> told{false};
  std::unique_ptr<Numbers> mailbox;
  mailbox = std::make_unique<Numbers>([&](int&, const std::stop_token&) {
    expect_error(ErrorCode::conflict, [&] { mailbox->wait_until_idle(); });
    told.change([](bool& value) { value = true; });
  });
  mailbox->post(1);
  ASSERT_TRUE(told.wait_for(true));
  mailbox->wait_until_idle();
}

TEST_F(MailboxTest, SenderMayWaitForEver) {
  auto mailbox = make_full(WhenFull::wait);
  EXPECT_EQ(mailbox->post(3, {.at_most = Duration::min()}), PostOutcome::full);
  std::jthread opener([&] { gate_.open(); });
  EXPECT_EQ(mailbox->post(3, {.at_most = Duration::max()}), PostOutcome::accepted);
  mailbox->wait_until_idle();
}

TEST_F(MailboxTest, StopMayTakeForEver) {
  auto mailbox = make_full(WhenFull::reject);
  auto stopped = std::async(std::launch::async,
                            [&] { return mailbox->stop({.finish_within = Duration::max()}); });
  while (mailbox->post(3) != PostOutcome::stopped) std::this_thread::yield();
  EXPECT_EQ(mailbox->counters().waiting, 2U);
  gate_.open();
  EXPECT_EQ(stopped.get(), 0U);
  EXPECT_THAT(handled_.get(), ElementsAre(0, 1, 2));
}

TEST_F(MailboxTest, OneThatWasNeverUsedStopsToo) {
  auto mailbox = make({});
  EXPECT_EQ(mailbox->stop(), 0U);
  expect_error(ErrorCode::out_of_range, [&] { make({.capacity = 0}); });
}

}  // namespace
}  // namespace oncebox
