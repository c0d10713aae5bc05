#include "crash_fixture.hpp"

#include <chrono>
#include <utility>

#include "oncebox/sqlite/sqlite_store.hpp"
#include "sqlite_soundness.hpp"

namespace oncebox::crash {

namespace {

// Far more than any of them takes, also on a busy machine.
constexpr std::chrono::seconds kPatience{120};

}  // namespace

std::string CrashFixture::ledger(std::size_t run) const {
  return folder_.file("ledger-" + std::to_string(run));
}

std::size_t CrashFixture::new_run() {
  killed_at_.emplace_back();
  return killed_at_.size() - 1;
}

std::vector<std::string> CrashFixture::worker(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ONCEBOX_CRASH_WORKER);
  return arguments;
}

void CrashFixture::kill(ChildProcess& process, std::size_t run) {
  killed_at_.at(run) = instant_now();
  EXPECT_TRUE(was_killed(process.kill())) << "a worker ended by itself";
}

int CrashFixture::run_to_the_end(const std::vector<std::string>& command, std::size_t run) {
  ChildProcess process(command);
  const std::optional<int> status = process.wait_for(kPatience);
  if (!status) {
    ADD_FAILURE() << command.front() << " did not come to its end";
    return process.kill();
  }
  if (was_killed(*status)) {
    const std::vector<Event> written = events(run);
    killed_at_.at(run) = written.empty() ? 0 : written.back().at;
  }
  return *status;
}

void CrashFixture::drain() {
  const std::size_t run = new_run();
  EXPECT_TRUE(exited_well(run_to_the_end(worker({"drain", database(), ledger(run)}), run)));
}

void CrashFixture::expect_all_well(Expect expect) const {
  expect_sound(database());
  sqlite::SqliteStore store({.path = database()});
  audit(store, runs(), expect);
}

std::vector<WorkerRun> CrashFixture::runs() const {
  std::vector<WorkerRun> runs;
  runs.reserve(killed_at_.size());
  for (std::size_t run = 0; run < killed_at_.size(); ++run) {
    runs.push_back({.events = events(run), .killed_at = killed_at_[run]});
  }
  return runs;
}

std::vector<Event> CrashFixture::events(std::size_t run) const { return read_ledger(ledger(run)); }

}  // namespace oncebox::crash
