#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "crash_fixture.hpp"

namespace oncebox::crash {
namespace {

class FullDisk : public CrashFixture {};

// The worker mounts a small disk of its own, fills it, and frees it again; see crash_worker.cpp.
TEST_F(FullDisk, RefusesAndLosesNothingAndGoesOnWhenThereIsRoomAgain) {
  RecordProperty("requirement", "IBX-013, IBX-106");
  const std::size_t run = new_run();
  ASSERT_TRUE(exited_well(run_to_the_end(worker({"fill", folder(), ledger(run)}), run)))
      << "see what the worker says above";

  std::vector<std::string> notes;
  std::set<std::string> refusals;
  for (const Event& event : events(run)) {
    if (event.kind == EventKind::noted) notes.push_back(event.word);
    if (event.kind == EventKind::refused) refusals.insert(event.word);
  }
  EXPECT_EQ(notes, (std::vector<std::string>{"full", "read", "read-by-another", "failed",
                                             "unavailable", "freed", "healthy"}));
  EXPECT_EQ(refusals, std::set<std::string>{"overloaded"});
  expect_all_well(Expect::everything_ended);
}

}  // namespace
}  // namespace oncebox::crash
