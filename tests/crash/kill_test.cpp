// Processes that take in and handle messages are killed at random moments and started again on the
// same file.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>

#include "crash_fixture.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "workload.hpp"

namespace oncebox::crash {
namespace {

unsigned number_from_environment(const char* name, unsigned otherwise) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment.
  const char* const text = std::getenv(name);
  return text != nullptr ? static_cast<unsigned>(std::stoul(text)) : otherwise;
}

class KilledProcess : public CrashFixture {
 protected:
  void SetUp() override {
    seed_ = number_from_environment("ONCEBOX_CRASH_SEED", std::random_device{}());
    random_.seed(seed_);
    fmt::print("ONCEBOX_CRASH_SEED={}\n", seed_);
  }

  [[nodiscard]] static unsigned kills() {
    constexpr unsigned kKills = 30;
    return number_from_environment("ONCEBOX_CRASH_KILLS", kKills);
  }

  // Most moments fall into opening, recovering and the first messages; some are late enough for
  // leases to lapse and to be extended.
  std::chrono::milliseconds random_life() {
    const bool is_long = random_() % 6 == 0;
    return std::chrono::milliseconds(random_() % (is_long ? 800 : 150));
  }

  // Whether a process wrote down that it took this message.
  [[nodiscard]] bool has_taken(const std::string& id, std::size_t run) const {
    const std::vector<Event> all = events(run);
    return std::ranges::any_of(all, [&](const Event& event) {
      return event.kind == EventKind::claimed && event.id == id;
    });
  }

  // Each slot is a process that is started again whenever it was killed.
  void kill_again_and_again(unsigned slots, unsigned kills) {
    struct Slot {
      std::unique_ptr<ChildProcess> process;
      std::size_t run = 0;
      Instant dies_at = 0;
    };
    std::vector<Slot> places(slots);
    std::vector<unsigned> starts(slots);
    const auto start = [&](std::size_t i) {
      Slot& slot = places[i];
      slot.run = new_run();
      slot.process = std::make_unique<ChildProcess>(
          worker({"work", database(), ledger(slot.run), std::to_string(i),
                  std::to_string(starts[i]++), std::to_string(random_())}));
      slot.dies_at = instant_now() + std::chrono::nanoseconds(random_life()).count();
    };
    for (std::size_t i = 0; i < slots; ++i) start(i);
    for (unsigned killed = 0; killed < kills; ++killed) {
      const auto next =
          std::min_element(places.begin(), places.end(),
                           [](const Slot& a, const Slot& b) { return a.dies_at < b.dies_at; });
      const auto left =
          std::chrono::nanoseconds(std::max<Instant>(next->dies_at - instant_now(), 0));
      ASSERT_FALSE(next->process->wait_for(std::chrono::ceil<std::chrono::milliseconds>(left)))
          << "a worker ended by itself";
      kill(*next->process, next->run);
      start(static_cast<std::size_t>(next - places.begin()));
    }
    for (Slot& slot : places) kill(*slot.process, slot.run);
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
};

TEST_F(KilledProcess, LosesNothingAndLeavesNoMessageWithTwoHolders) {
  RecordProperty("requirement", "IBX-013, IBX-106, R-09, R-14, R-15, R-25");
  kill_again_and_again(1, kills());
  expect_all_well(Expect::unfinished_work);
  drain();
  expect_all_well(Expect::everything_ended);
}

TEST_F(KilledProcess, LosesNothingWhileAnotherProcessWorksOnTheSameFile) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15, R-25");
  kill_again_and_again(2, kills());
  expect_all_well(Expect::unfinished_work);
  drain();
  expect_all_well(Expect::everything_ended);
}

TEST_F(KilledProcess, MessageThatKillsItsWorkersEndsDead) {
  RecordProperty("requirement", "R-10");
  {
    sqlite::SqliteStore store({.path = database()});
    limit_deliveries(store);
    store.inbox().enqueue({.key = key_of("killer"), .topic = topic_of(Plan::kills_its_worker)});
    for (int n = 1; n <= 10; ++n) {
      store.inbox().enqueue(
          {.key = key_of(fmt::format("bystander-{}", n)), .topic = topic_of(Plan::succeeds)});
    }
  }
  int deaths = 0;
  for (bool died = true; died && deaths <= kMaxDeliveries;) {
    const std::size_t run = new_run();
    died = was_killed(run_to_the_end(worker({"drain", database(), ledger(run)}), run));
    if (died) ++deaths;
    EXPECT_EQ(has_taken("killer", run), died) << "whoever takes it dies";
  }
  // One for each delivery, unless the machine is so busy that a lease ends before its process.
  EXPECT_GT(deaths, 0);
  EXPECT_LE(deaths, kMaxDeliveries);

  sqlite::SqliteStore store({.path = database()});
  const auto killer = store.inbox().find(key_of("killer"));
  ASSERT_TRUE(killer);
  EXPECT_EQ(to_string(killer->status), "dead");
  EXPECT_EQ(killer->history.last_error, fmt::format("lease expired {} times", kMaxDeliveries));
  EXPECT_EQ(killer->history.deliveries, kMaxDeliveries);
  EXPECT_EQ(killer->history.attempt, 0);
  EXPECT_EQ(store.inbox_operator().count({.statuses = {Status::done}}), 10U);
}

}  // namespace
}  // namespace oncebox::crash
