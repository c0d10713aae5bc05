// When the failures of an endpoint disable it.

#include <gtest/gtest.h>

#include <chrono>

#include "oncebox/endpoint.hpp"

namespace oncebox {
namespace {

using namespace std::chrono_literals;
using Kind = EndpointEvent::Kind;

class EndpointStatusTest : public ::testing::Test {
 protected:
  void after(Duration time, Kind kind = Kind::failed) {
    now_ += time;
    record_.status = status_after(record_, {.kind = kind, .at = now_});
  }
  [[nodiscard]] bool has_failed_too_long() const {
    return oncebox::has_failed_too_long(record_, now_);
  }

  TimePoint now_{24h * 365};
  EndpointRecord record_{.endpoint = {.name = "crm", .url = "https://crm.example"}};
};

TEST_F(EndpointStatusTest, FailuresAllTheTimeAddUp) {
  for (int days = 0; days < 5; ++days) {
    EXPECT_FALSE(has_failed_too_long());
    after(24h);
  }
  EXPECT_FALSE(has_failed_too_long()) << "the first was four days ago";
  after(24h);
  EXPECT_TRUE(has_failed_too_long());
}

TEST_F(EndpointStatusTest, ASuccessInBetweenBeginsAnew) {
  for (int days = 0; days < 5; ++days) after(24h);
  after(1min, Kind::worked);
  EXPECT_EQ(record_.status, EndpointStatus{});
  after(24h);
  EXPECT_EQ(record_.status.failing_since, now_);
}

TEST_F(EndpointStatusTest, TwoFailuresThatAreDaysApartDoNotAddUp) {
  after(0h);
  after(6 * 24h);
  EXPECT_FALSE(has_failed_too_long()) << "nothing was sent in between";
  EXPECT_EQ(record_.status.failing_since, now_);
  for (int hours = 0; hours < 120; hours += 30) after(30h);
  EXPECT_TRUE(has_failed_too_long());
}

TEST_F(EndpointStatusTest, FewFailuresChangeIt) {
  after(0h);
  int changes = 0;
  for (int minutes = 0; minutes < 5 * 24 * 60; ++minutes) {
    const EndpointStatus before = record_.status;
    after(1min);
    changes += static_cast<int>(record_.status != before);
  }
  EXPECT_LE(changes, 40);
  EXPECT_TRUE(has_failed_too_long());
}

TEST_F(EndpointStatusTest, OneThatIsNeverDisabledTellsSinceWhenItFails) {
  record_.endpoint.disable_after = 0h;
  after(0h);
  const TimePoint first = now_;
  after(1000h);
  EXPECT_EQ(record_.status.failing_since, first);
  EXPECT_FALSE(has_failed_too_long());
}

TEST_F(EndpointStatusTest, OneThatWasNotedBeforeLastFailuresWereGoesOn) {
  record_.status.failing_since = now_;
  after(24h);
  EXPECT_EQ(record_.status.failing_since, now_ - 24h);
  EXPECT_EQ(record_.status.last_failure, now_);
}

}  // namespace
}  // namespace oncebox
