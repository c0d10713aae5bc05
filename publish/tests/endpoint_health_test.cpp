#include "endpoint_health.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "hanging_store.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;

class EndpointHealthTest : public ::testing::Test {
 protected:
  void save(const std::string& name, const std::string& url) {
    store_.endpoints().save({.name = name, .url = url});
  }
  [[nodiscard]] EndpointRecord record(const std::string& name = "crm") {
    const EndpointList list = store_.endpoints().list(EndpointSecrets::include);
    return *list.find(name);
  }
  [[nodiscard]] bool fails() { return record().status.failing_since.has_value(); }
  [[nodiscard]] bool is_ready() {
    const EndpointHealth::Moment looked_at = health_.now();
    try {
      health_.require_ready("", record(), looked_at);
    } catch (const NotNow&) {
      return false;
    }
    return true;
  }
  /// As a receiver that answers with `Retry-After`.
  void ask_for_time() {
    save("crm", "test://crm");
    health_.on_failed("", record(), std::make_exception_ptr(RetryAfter(1h, "answered 429")));
    EXPECT_TRUE(eventually([&] { return fails(); }));
  }

  testing::ManualClock clock_;
  RecordingLogger logger_;
  HangingStore store_{clock_};
  const EndpointPublishers publishers_{};
  const std::shared_ptr<PublishingStore> published_ =
      std::make_shared<PublishingStore>("", store_, nullptr, publishers_, clock_);
  const PublishingParts parts_{
      [this](std::string_view) { return published_; }, {}, logger_, clock_};
  EndpointHealth health_{parts_};
};

TEST_F(EndpointHealthTest, AReceiverThatAskedForTimeIsLeftAloneUntilThen) {
  ask_for_time();
  EXPECT_FALSE(is_ready());
  clock_.advance(1h - 1ms);
  EXPECT_FALSE(is_ready());
  clock_.advance(1ms);
  EXPECT_TRUE(is_ready());
}

TEST_F(EndpointHealthTest, AnEndpointThatWasChangedIsReady) {
  RecordProperty("requirement", "R-37");
  ask_for_time();
  save("crm", "test://another");
  EXPECT_TRUE(is_ready());
}

TEST_F(EndpointHealthTest, AnEndpointThatWasEnabledIsReady) {
  RecordProperty("requirement", "R-37");
  ask_for_time();
  EXPECT_FALSE(is_ready());
  store_.endpoints().note("crm", {EndpointEvent::Kind::enabled, clock_.now()});
  EXPECT_TRUE(eventually([&] { return is_ready(); }));
}

TEST_F(EndpointHealthTest, ADeliveryThatWasUnderWayAndWorkedEndsNoWait) {
  ask_for_time();
  health_.on_worked("", record());
  ASSERT_TRUE(eventually([&] { return !fails(); }));
  EXPECT_FALSE(is_ready());
}

TEST_F(EndpointHealthTest, ASuccessBetweenTwoFailuresIsNotTakenForAnEnabling) {
  RecordProperty("requirement", "R-37");
  save("crm", "test://crm");
  const EndpointRecord known = record();
  const auto asked = std::make_exception_ptr(RetryAfter(1h, "answered 429"));
  store_.hold(HangingStore::Hangs::at_notes);
  health_.on_failed("", known, asked);
  ASSERT_TRUE(store_.wait_for_held(1));
  health_.on_worked("", known);
  health_.on_failed("", known, asked);
  store_.let_go(2);
  ASSERT_TRUE(store_.wait_for_held(3));
  EXPECT_FALSE(fails()) << "the second failure is not noted yet";
  EXPECT_FALSE(is_ready());
  store_.let_go(2);
  ASSERT_TRUE(eventually([&] { return fails(); }));
  EXPECT_FALSE(is_ready());
  store_.endpoints().note("crm", {EndpointEvent::Kind::enabled, clock_.now()});
  EXPECT_TRUE(eventually([&] { return is_ready(); }));
}

TEST_F(EndpointHealthTest, ItsEndWaitsForStoresThatHangOnlySoLong) {
  RecordProperty("requirement", "R-37");
  std::vector<EndpointRecord> known;
  for (const char* const name : {"a", "b", "c"}) {
    save(name, "test://it");
    known.push_back(record(name));
  }
  store_.hang(HangingStore::Hangs::at_endpoints);
  for (const EndpointRecord& each : known) {
    health_.on_failed("", each, std::make_exception_ptr(std::runtime_error("no answer")));
  }
  ASSERT_TRUE(store_.wait_for_hung(1));
  Watched<bool> is_closed{false};
  const std::jthread closing([&] {
    health_.close();
    is_closed.change([](bool& closed) { closed = true; });
  });
  EXPECT_TRUE(eventually([&] {
    clock_.advance(1s);
    return is_closed.get();
  }));
  EXPECT_EQ(store_.hung(), 1) << "the others are not tried";
}

}  // namespace
}  // namespace oncebox::publish
