#include "brief_calls.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "oncebox/error.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;

class BriefCallsTest : public ::testing::Test {
 protected:
  void make() {
    calls_.make(2s, [this](const CallOptions& call) {
      ++made_;
      EXPECT_TRUE(call.deadline);
      if (failure_) throw Error(*failure_, "it hangs");
    });
  }

  testing::ManualClock clock_;
  BriefCalls calls_{clock_};
  std::optional<ErrorCode> failure_;
  int made_ = 0;
};

TEST_F(BriefCallsTest, AStoreThatDoesNotAnswerIsLeftAloneForAMoment) {
  failure_ = ErrorCode::timeout;
  EXPECT_THROW(make(), NotNow);
  EXPECT_THROW(make(), NotNow);
  EXPECT_EQ(made_, 1);
  clock_.advance(1s);
  EXPECT_THROW(make(), NotNow);
  EXPECT_EQ(made_, 2);
  failure_.reset();
  EXPECT_THROW(make(), NotNow);
  EXPECT_EQ(made_, 2);
  clock_.advance(1s);
  make();
  make();
  EXPECT_EQ(made_, 4) << "it answers";
}

TEST_F(BriefCallsTest, OneAtATimeAsksAStoreThatDidNotAnswer) {
  failure_ = ErrorCode::unavailable;
  EXPECT_THROW(make(), NotNow);
  failure_.reset();
  clock_.advance(1s);
  calls_.make(2s, [this](const CallOptions&) { EXPECT_THROW(make(), NotNow); });
  EXPECT_EQ(made_, 1);
  make();
  EXPECT_EQ(made_, 2);
}

TEST_F(BriefCallsTest, WhatNoRepetitionMendsIsNoSilence) {
  failure_ = ErrorCode::corrupt;
  EXPECT_THROW(make(), Error);
  EXPECT_THROW(make(), Error);
  EXPECT_EQ(made_, 2);
}

}  // namespace
}  // namespace oncebox::publish
