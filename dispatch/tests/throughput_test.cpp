#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

class ThroughputTest : public OnEachStore {
 protected:
  void enqueue(QueueStore& queue, int count) {
    std::vector<Message> messages;
    for (int i = 0; i < count; ++i) messages.push_back(message_of(std::to_string(i)));
    queue.enqueue(messages);
  }
};
ONCEBOX_ON_EACH_STORE(ThroughputTest);

// Measured in processor time of this process, which neither neighbours nor a slow disk change.
TEST_P(ThroughputTest, ADispatcherHandlesThousandsInASecondOfOneProcessor) {
  RecordProperty("requirement", "IBX-121");
  constexpr int kMessages = 10'000;
  constexpr double kLeastPerSecond = 2'000;
  const std::unique_ptr<Store> store = make_store();
  enqueue(store->inbox(), kMessages);
  Handlers handlers;
  handlers.on("t", [](const ClaimedMessage&, HandlerContext&) {});
  NullLogger logger;
  Observer observer;
  Dispatcher dispatcher(store->inbox(), handlers, {}, {logger, observer, clock_});
  const std::clock_t begun = std::clock();
  dispatcher.start();
  ASSERT_TRUE(eventually([&] { return dispatcher.stats().handled == kMessages; }));
  ASSERT_TRUE(dispatcher.stop().complete());
  const double used_s = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  EXPECT_GE(kMessages / used_s, kLeastPerSecond);
  EXPECT_EQ(store->inbox_operator().stats().total().done, std::size_t{kMessages});
}

}  // namespace
}  // namespace oncebox
