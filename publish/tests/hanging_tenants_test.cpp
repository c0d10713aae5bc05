// Stores that do not answer, beside others of the same process. Time stands still in these tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "hanging_store.hpp"
#include "oncebox/publish/delivery.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;
using Hangs = HangingStore::Hangs;
using Lines = std::vector<std::string>;

class HangingTenants : public ::testing::Test {
 protected:
  HangingTenants() {
    publishers_.on("test", [this](const EndpointTarget& target) {
      return callable_publisher(
          [this, store = target.group](const ClaimedMessage& message, HandlerContext&) {
            lines_.change([&](Lines& all) {
              all.push_back(store + ": " + message.message.key.message_id.str());
            });
          });
    });
    for (const char* const name : {"a", "b"}) {
      save_endpoint(store(name), {.name = "crm", .url = "test://crm"});
    }
  }
  [[nodiscard]] HangingStore& store(const std::string& name) {
    return dynamic_cast<HangingStore&>(stores_.find(name)->store());
  }
  [[nodiscard]] static Message message(int number) {
    return {.key = {"shop", std::to_string(number)}, .topic = "t", .payload = "{}"};
  }
  void start(std::size_t workers = 1) {
    publishing_ = std::make_unique<SetPublishing>(
        stores_, publishers_,
        PublishingOptions{.fan_out = {.workers = workers}, .deliveries = {.workers = 1}},
        SurroundingsOfQueues{.logger = logger_, .clock = clock_});
    publishing_->start();
  }
  /// Both fan-outs begin with what was sent.
  void send_to_both() {
    for (const char* const name : {"a", "b"}) store(name).outbox().enqueue(message(1));
  }
  /// The first store answers again, and what was put off comes again.
  void recover() {
    store("a").hang(Hangs::never);
    clock_.advance(1s);
    publishing_->wake();
  }
  /// Without polls, for which time would have to pass.
  template <class Condition>
  [[nodiscard]] bool comes_true(Condition holds) {
    return eventually([&] {
      publishing_->wake();
      return holds();
    });
  }
  [[nodiscard]] bool wait_for(const Lines& expected) {
    return comes_true([&] {
      Lines all = lines_.get();
      std::ranges::sort(all);
      return all == expected;
    });
  }
  [[nodiscard]] bool wait_for_released(std::size_t count) {
    return comes_true([&] { return publishing_->stats().fan_out.released == count; });
  }
  [[nodiscard]] int attempts_of_fan_out() {
    return store("a").outbox().find(MessageKey{"shop", "1"})->history.attempt;
  }

  testing::ManualClock clock_;
  RecordingLogger logger_;
  Watched<Lines> lines_;
  EndpointPublishers publishers_;
  StoreSet stores_{std::vector<StoreLocation>{{"a", "memory:"}, {"b", "memory:"}},
                   [this](const StoreLocation&) { return std::make_unique<HangingStore>(clock_); },
                   {},
                   {.logger = logger_}};
  std::unique_ptr<SetPublishing> publishing_;
};

TEST_F(HangingTenants, AStoreThatDoesNotTellItsEndpointsIsAskedByOneDelivery) {
  RecordProperty("requirement", "R-37");
  constexpr int kDeliveries = 50;
  for (int i = 1; i <= kDeliveries; ++i) {
    store("a").deliveries().enqueue(delivery_of(message(i), "crm"));
  }
  store("a").hang(Hangs::at_endpoints);
  start();
  store("b").outbox().enqueue(message(1));
  ASSERT_TRUE(wait_for({"b: 1"}));
  ASSERT_TRUE(comes_true([&] { return publishing_->stats().deliveries.released == kDeliveries; }));
  EXPECT_EQ(store("a").hung(), 1);
  const MessageKey first = delivery_key({"shop", "1"}, "crm");
  EXPECT_EQ(store("a").deliveries().find(first)->history.attempt, 0);
  recover();
  EXPECT_TRUE(comes_true([&] { return lines_.get().size() == kDeliveries + 1; }));
}

TEST_F(HangingTenants, AStoreThatDoesNotTellItsEndpointsHoldsUpNoOtherFanOut) {
  RecordProperty("requirement", "R-37");
  store("a").hang(Hangs::at_endpoints);
  start();
  send_to_both();
  ASSERT_TRUE(wait_for({"b: 1"}));
  ASSERT_TRUE(comes_true([&] { return publishing_->stats().fan_out.released == 1; }));
  EXPECT_EQ(attempts_of_fan_out(), 0);
  recover();
  EXPECT_TRUE(wait_for({"a: 1", "b: 1"}));
}

TEST_F(HangingTenants, AStoreThatTakesNoDeliveriesHoldsUpNoOtherFanOut) {
  RecordProperty("requirement", "R-37");
  store("a").hang(Hangs::at_storing_deliveries);
  start();
  send_to_both();
  ASSERT_TRUE(wait_for({"b: 1"}));
  ASSERT_TRUE(comes_true([&] { return publishing_->stats().fan_out.released == 1; }));
  EXPECT_EQ(attempts_of_fan_out(), 0);
  recover();
  EXPECT_TRUE(wait_for({"a: 1", "b: 1"}));
}

TEST_F(HangingTenants, AStoreThatAnswersLooksAloneKeepsOneWorker) {
  RecordProperty("requirement", "R-37");
  constexpr std::size_t kWorkers = 3;
  HangingStore& slow = store("a");
  slow.hang(Hangs::at_storing_deliveries);
  start(kWorkers);
  slow.outbox().enqueue(message(1));
  ASSERT_TRUE(wait_for_released(1));
  slow.hang(Hangs::never);
  slow.hold(Hangs::at_storing_deliveries);
  clock_.advance(1s);
  ASSERT_TRUE(comes_true([&] { return slow.held() == 1; })) << "a worker tries it again";
  for (std::size_t i = 2; i <= 1 + kWorkers; ++i) {
    slow.outbox().enqueue(message(static_cast<int>(i)));
    ASSERT_TRUE(wait_for_released(i)) << "no other worker tries it";
  }
  EXPECT_EQ(slow.held(), 1);
  store("b").outbox().enqueue(message(1));
  EXPECT_TRUE(wait_for({"b: 1"}));
  slow.let_go(1);
}

TEST_F(HangingTenants, ALargeMessageHasTimeToBeStoredOverASlowLine) {
  RecordProperty("requirement", "R-37");
  start();
  store("a").outbox().enqueue(message(1));
  ASSERT_TRUE(wait_for({"a: 1"}));
  EXPECT_LE(store("a").time_to_store(), 5s);
  Message large = message(1);
  large.payload = std::string(std::size_t{4} << 20, 'x');
  store("b").outbox().enqueue(large);
  ASSERT_TRUE(wait_for({"a: 1", "b: 1"}));
  EXPECT_GT(store("b").time_to_store(), 15s);
}

}  // namespace
}  // namespace oncebox::publish
