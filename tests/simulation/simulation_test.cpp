#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "scenario.hpp"

namespace oncebox::simulation {
namespace {

TEST(SimulationTest, EveryRuleHoldsForManySeeds) {
  constexpr std::size_t kLeastSteps = 150'000;
  std::size_t steps = 0;
  for (std::uint64_t seed = 1; steps < kLeastSteps; ++seed) {
    const Outcome outcome = run(seed);
    ASSERT_TRUE(outcome.is_good()) << outcome.story << "seed " << seed << ": " << outcome.violation
                                   << "\nagain: ./dev simulate 1 " << seed;
    steps += outcome.steps;
  }
}

TEST(SimulationTest, ASeedRepeatsExactly) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Outcome first = run(seed);
    const Outcome second = run(seed);
    EXPECT_TRUE(first.is_good()) << first.story << first.violation;
    EXPECT_EQ(first.fingerprint, second.fingerprint);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_NE(run(seed + 100).fingerprint, first.fingerprint);
  }
}

/// Whether one of the first seeds finds the bug.
bool finds(Planted planted) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    if (!run(seed, planted).is_good()) return true;
  }
  return false;
}

TEST(SimulationTest, FindsAMessageThatTwoHold) { EXPECT_TRUE(finds(Planted::holds_nothing)); }
TEST(SimulationTest, FindsNewsThatAreLost) { EXPECT_TRUE(finds(Planted::tells_nobody)); }
TEST(SimulationTest, FindsAMessageThatIsForgotten) { EXPECT_TRUE(finds(Planted::loses_messages)); }
TEST(SimulationTest, FindsAStopThatDoesNotEnd) { EXPECT_TRUE(finds(Planted::never_answers)); }

}  // namespace
}  // namespace oncebox::simulation
