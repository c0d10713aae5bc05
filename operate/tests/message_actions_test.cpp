// Actions by a filter while messages change: only those that still match are changed.

#include "oncebox/operate/message_actions.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "expect_error.hpp"
#include "forwarding_operator.hpp"
#include "oncebox/operate/dead_recovery.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;

class MessageActionsTest : public OnEachStore {
 protected:
  /// Does it with all that match while `race` runs between the list and the change.
  std::size_t act_while(const std::function<void()>& race, const MessageFilter& filter,
                        const OperatorAction& action) {
    RacingOperator racing(store_->inbox_operator(), race);
    return act_on_all(racing, filter, action, 100);
  }
  [[nodiscard]] State state_of(const std::string& id) {
    return store_->inbox().find(MessageKey{"shop", id}).value().state;
  }
  void revive(const std::string& id) {
    const std::vector<MessageKey> keys{{"shop", id}};
    ASSERT_EQ(store_->inbox_operator().revive(keys).at(0), ReviveOutcome::revived);
  }

  std::unique_ptr<Store> store_ = make_store();
  QueueStore& inbox_ = store_->inbox();
};
ONCEBOX_ON_EACH_STORE(MessageActionsTest);

TEST_P(MessageActionsTest, WhatIsAcceptedMeanwhileIsNotDeletedAsSeen) {
  RecordProperty("requirement", "R-30");
  inbox_.observe(Observation{.key = {"shop", "a"}});
  inbox_.observe(Observation{.key = {"shop", "b"}});
  const auto accept = [&] {
    EXPECT_EQ(inbox_.enqueue(message_of("a")).status, EnqueueStatus::accepted);
  };
  EXPECT_EQ(act_while(accept, {.states = {State::seen}}, Delete{}), 1U);
  EXPECT_EQ(state_of("a"), State::ready);
  EXPECT_EQ(inbox_.find(MessageKey{"shop", "b"}), std::nullopt);
}

TEST_P(MessageActionsTest, WhatIsRevivedMeanwhileIsNotDeletedAsDead) {
  RecordProperty("requirement", "R-30");
  for (const OperatorAction action : {OperatorAction(Delete{}), OperatorAction(Purge{})}) {
    const std::string id(name_of(action));
    bury(inbox_, message_of(id), "broken");
    EXPECT_EQ(act_while([&] { revive(id); }, {.statuses = {Status::dead}}, action), 0U);
    EXPECT_EQ(state_of(id), State::ready);
  }
}

TEST_P(MessageActionsTest, WhatIsOfAnotherTopicMeanwhileIsLeftAlone) {
  RecordProperty("requirement", "R-30");
  for (const OperatorAction action :
       {OperatorAction(Cancel{}), OperatorAction(RunNow{}),
        OperatorAction(Reschedule{clock_.now() + hours{2}}), OperatorAction(Delete{})}) {
    Message later = message_of(std::string(name_of(action)));
    later.due_at = clock_.now() + hours{1};
    inbox_.enqueue(later);
    const auto move = [&] {
      later.topic = Topic("moved");
      inbox_.enqueue(later);
    };
    EXPECT_EQ(act_while(move, {.topic = TopicPattern("t")}, action), 0U) << name_of(action);
    const MessageRecord record = inbox_.find(later.key).value();
    EXPECT_EQ(record.waiting_for, WaitingFor::due) << name_of(action);
    EXPECT_EQ(record.message->due_at, later.due_at) << name_of(action);
  }
}

TEST_P(MessageActionsTest, WhatDiedAgainMeanwhileIsNotPurgedWithItsOldGroup) {
  RecordProperty("requirement", "R-30");
  bury(inbox_, message_of("a"), "broken");
  bury(inbox_, message_of("b"), "broken");
  RacingOperator racing(store_->inbox_operator(), [&] {
    revive("a");
    clock_.advance(Duration{1});
    inbox_.mark(Mark{.key = {"shop", "a"}, .as = MarkAs::dead, .error = "another"});
  });
  const DeadGroupId group{.topic = Topic("t"), .fingerprint = error_fingerprint("broken")};
  EXPECT_EQ(purge_dead(racing, {.group = group}, {}), 1U);
  EXPECT_EQ(state_of("a"), State::dead);
  EXPECT_EQ(inbox_.find(MessageKey{"shop", "b"}), std::nullopt);
}

TEST_P(MessageActionsTest, AllThatMatchAreChangedOnce) {
  RecordProperty("requirement", "R-30");
  std::vector<Message> messages;
  for (int i = 0; i < 1'500; ++i) messages.push_back(message_of(std::to_string(i)));
  inbox_.enqueue(messages);
  const Reschedule later{clock_.now() + hours{1}};
  EXPECT_EQ(act_on_all(store_->inbox_operator(), {}, later, 5'000), 1'500U);
  EXPECT_EQ(act_on_all(store_->inbox_operator(), {.topic = TopicPattern("t")}, Delete{}, 1'200),
            1'200U);
  EXPECT_EQ(store_->inbox_operator().count({}), 300U);
}

TEST_P(MessageActionsTest, ASecondFilterIsRefused) {
  const ActOptions options{.only = MessageFilter{.states = {State::dead}}};
  QueueOperator& queue = store_->inbox_operator();
  expect_error(ErrorCode::invalid_argument,
               [&] { (void)act_on_all(queue, {}, Delete{}, 1, options); });
  expect_error(ErrorCode::invalid_argument,
               [&] { (void)queue.act_matching({}, Delete{}, 1, options); });
}

}  // namespace
}  // namespace oncebox
