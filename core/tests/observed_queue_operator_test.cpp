#include "oncebox/driver/observed_queue_operator.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "forwarding_operator.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox {
namespace {

class CancelObserver final : public Observer {
 public:
  void on_cancel(const MessageKey& key) noexcept override { ids.push_back(key.message_id.str()); }

  std::vector<std::string> ids;
};

TEST(ObservedQueueOperator, TellsOfEachCancelledMessageOnce) {
  ::testing::Test::RecordProperty("requirement", "R-33");
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  std::ostringstream log;
  TextLogger logger(log, clock, LogLevel::debug);
  CancelObserver observer;
  ObservedQueueOperator queue(store.inbox_operator(), store.inbox(), "tenant-a",
                              {.logger = logger, .observer = observer});
  std::vector<std::string> all;
  for (int i = 0; i < 1'500; ++i) {
    all.push_back("m" + std::to_string(i));
    store.inbox().enqueue(
        Message{.key = {"shop", all.back()},
                .topic = "t",
                .headers = {{std::string(header_names::kCorrelationId), "corr-1"}}});
  }

  const std::vector<MessageKey> keys{{"shop", "m0"}, {"shop", "nobody"}, {"shop", "m0"}};
  EXPECT_EQ(queue.act(keys, Cancel{}),
            (std::vector{ActOutcome::changed, ActOutcome::unknown, ActOutcome::refused}));
  EXPECT_EQ(observer.ids, std::vector<std::string>{"m0"});
  EXPECT_NE(log.str().find("warning message is dead store=tenant-a topic=t source=shop "
                           "message_id=m0 reason=cancelled correlation_id=corr-1"),
            std::string::npos)
      << log.str();

  EXPECT_EQ(queue.act_matching({}, Cancel{}, 10'000), 1'499U);
  EXPECT_EQ(observer.ids, all);
  EXPECT_EQ(queue.act_matching({}, Delete{}, 10'000), 1'500U);
  EXPECT_EQ(observer.ids, all) << "nothing died";
}

TEST(ObservedQueueOperator, CancelsOnlyWhatStillMatches) {
  ::testing::Test::RecordProperty("requirement", "R-30");
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  const auto put_under = [&](const char* topic) {
    store.inbox().enqueue(Message{.key = {"shop", "a"}, .topic = Topic(topic)});
  };
  put_under("mail");
  NullLogger logger;
  CancelObserver observer;
  RacingOperator racing(store.inbox_operator(), [&] { put_under("order"); });
  ObservedQueueOperator queue(racing, store.inbox(), "tenant-a",
                              {.logger = logger, .observer = observer});
  EXPECT_EQ(queue.act_matching({.topic = TopicPattern("mail")}, Cancel{}, 10), 0U);
  EXPECT_EQ(store.inbox().find(MessageKey{"shop", "a"})->state, State::ready);
  EXPECT_TRUE(observer.ids.empty());
}

}  // namespace
}  // namespace oncebox
