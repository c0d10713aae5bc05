// Processes with transactional handlers are killed at every step, and started again. At any time as
// many rows, receipts and acknowledgements are there; in the end each message counts once.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "effects_fixture.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/testing/child_process.hpp"

namespace oncebox::effects {
namespace {

using namespace std::chrono_literals;
using testing::ChildProcess;

constexpr std::int64_t kMessages = 10'000;

class KilledHandler : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    place_ = make_place(GetParam());
    const auto store = open_store(place_->url());
    std::vector<Message> messages;
    for (std::int64_t n = 0; n < kMessages; ++n) {
      messages.push_back({.key = {"shop", std::to_string(n)},
                          .topic = "order.paid",
                          .headers = {{"table", place_->table()}}});
    }
    store->inbox().enqueue(messages);
  }

  void run_until_it_dies(const std::string& step, unsigned call) {
    ChildProcess worker({ONCEBOX_EFFECTS_WORKER, place_->url(), step, std::to_string(call)});
    const std::optional<int> status = worker.wait_for(300s);
    ASSERT_TRUE(status && testing::was_killed(*status)) << "at " << step << " of call " << call;
    place_->wait_for_the_dead();
  }

  void drain() {
    ChildProcess worker({ONCEBOX_EFFECTS_WORKER, place_->url(), "drain", "0"});
    const std::optional<int> status = worker.wait_for(600s);
    ASSERT_TRUE(status && testing::exited_well(*status));
    place_->wait_for_the_dead();
  }

  /// Rows, receipts and acknowledgements agree. Answers how many there are.
  std::int64_t expect_agreement(const std::string& when) {
    const auto store = open_store(place_->url());
    const auto done =
        static_cast<std::int64_t>(store->inbox_operator().count({.statuses = {Status::done}}));
    const auto receipts = static_cast<std::int64_t>(store->outbox_operator().count({}));
    EXPECT_EQ(place_->number("SELECT count(*) FROM " + place_->table()), done) << when;
    EXPECT_EQ(place_->number("SELECT sum(times) FROM " + place_->table()), done) << when;
    EXPECT_EQ(receipts, done) << when;
    return done;
  }

  std::unique_ptr<Place> place_;
};

INSTANTIATE_TEST_SUITE_P(Stores, KilledHandler,
                         ::testing::Values(Backend::sqlite, Backend::postgresql),
                         [](const auto& tested) {
                           return tested.param == Backend::sqlite ? "sqlite" : "postgresql";
                         });

TEST_P(KilledHandler, RowsReceiptsAndAcknowledgementsAgreeAtEveryStep) {
  RecordProperty("requirement", "PKT-09, R-25");
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE(fmt::format("ONCEBOX_CRASH_SEED={}", seed));
  std::mt19937 random(seed);
  const auto kill_at = [&](const std::string& step) {
    const auto call = 1 + static_cast<unsigned>(random() % 300);
    run_until_it_dies(step, call);
    expect_agreement(fmt::format("{} of call {}", step, call));
  };
  for (const char* const step : {"at-first", "after-row", "after-message", "at-last"}) {
    for (int time = 0; time < 2; ++time) ASSERT_NO_FATAL_FAILURE(kill_at(step));
  }
  // The handler has returned: the process dies before, during or after the commit.
  for (int time = 0; time < 12; ++time) {
    ASSERT_NO_FATAL_FAILURE(kill_at(fmt::format("after-us:{}", random() % 3'000)));
  }
  EXPECT_LT(expect_agreement("before the rest"), kMessages) << "nothing was left to be killed";
  drain();
  EXPECT_EQ(expect_agreement("in the end"), kMessages);
  EXPECT_EQ(place_->number("SELECT count(*) FROM " + place_->table() + " WHERE times = 1"),
            kMessages);
}

}  // namespace
}  // namespace oncebox::effects
