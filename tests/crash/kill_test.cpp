// Processes that take in and handle messages are killed at random moments and started again on the
// same file.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>

#include "audit.hpp"
#include "crash_fixture.hpp"

namespace oncebox::crash {
namespace {

unsigned number_from_environment(const char* name, unsigned otherwise) {
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
  expect_sound(database());
  audit(database(), runs(), Expect::unfinished_work);
  drain();
  expect_sound(database());
  audit(database(), runs(), Expect::everything_ended);
}

TEST_F(KilledProcess, LosesNothingWhileAnotherProcessWorksOnTheSameFile) {
  RecordProperty("requirement", "IBX-013, IBX-072, IBX-105, IBX-106, R-14, R-15, R-25");
  kill_again_and_again(2, kills());
  expect_sound(database());
  audit(database(), runs(), Expect::unfinished_work);
  drain();
  expect_sound(database());
  audit(database(), runs(), Expect::everything_ended);
}

}  // namespace
}  // namespace oncebox::crash
