// When a queue tells other processes of its work.
#include "announcer.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

class PostgresqlAnnouncerTest : public ::testing::Test {
 protected:
  testing::ManualClock clock_;
  std::atomic<int> sent_ = 0;
  std::optional<Announcer> announcer_{std::in_place, clock_, "channel", "text",
                                      [this](const Announcement&) {
                                        ++sent_;
                                        sent_.notify_all();
                                      }};
};

TEST_F(PostgresqlAnnouncerTest, GoesWithACommitAtMostEveryTenMilliseconds) {
  ASSERT_TRUE(announcer_->next());
  clock_.advance(9ms);
  EXPECT_FALSE(announcer_->next());
  clock_.advance(1ms);
  EXPECT_TRUE(announcer_->next());
}

TEST_F(PostgresqlAnnouncerTest, WhatComesInBetweenIsAnnouncedTogetherALittleLater) {
  ASSERT_TRUE(announcer_->next());
  for (int i = 0; i < 3; ++i) announcer_->soon();
  clock_.advance(9ms);
  EXPECT_EQ(sent_, 0);
  EXPECT_FALSE(announcer_->next()) << "the thread will announce it";
  clock_.advance(1ms);
  sent_.wait(0);
  EXPECT_EQ(sent_, 1);
  EXPECT_FALSE(announcer_->next()) << "the thread did just now";
  clock_.advance(10ms);
  EXPECT_TRUE(announcer_->next());
  announcer_.reset();
  EXPECT_EQ(sent_, 1);
}

TEST_F(PostgresqlAnnouncerTest, WhatWaitsAtTheEndIsAnnouncedAtOnce) {
  ASSERT_TRUE(announcer_->next());
  announcer_->soon();
  announcer_.reset();
  EXPECT_EQ(sent_, 1);
}

}  // namespace
}  // namespace oncebox::postgresql
