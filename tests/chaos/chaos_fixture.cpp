#include "chaos_fixture.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "audit.hpp"
#include "oncebox/open_store.hpp"

namespace oncebox::chaos {

namespace {

using namespace std::chrono_literals;
using workers::EventKind;

// Throughput is to be back within seconds; a busy machine, or a sanitizer, may need many of them.
constexpr auto kPatience = 180s;
constexpr auto kLookAgain = 10ms;

bool is_answered(const Event& event) { return event.kind == EventKind::answered; }

bool is_handled(const Event& event) {
  return event.kind == EventKind::settled && event.word == "settled";
}

bool is_failure(const Event& event) {
  if (event.kind == EventKind::refused || event.kind == EventKind::unclaimed) return true;
  return event.kind == EventKind::settled && event.word != "settled" &&
         event.word != "superseded" && event.word != "lease_lost";
}

// From the end, as there are many before.
template <class Condition>
std::size_t count_since(Instant since, const std::vector<Event>& events, Condition counts) {
  std::size_t count = 0;
  for (auto event = events.rbegin(); event != events.rend() && event->at >= since; ++event) {
    if (counts(*event)) ++count;
  }
  return count;
}

}  // namespace

ChaosFixture::ChaosFixture() {
  namespace fs = std::filesystem;
  fs::permissions(folder_.file(""), fs::perms::others_exec, fs::perm_options::add);
}

ChaosFixture::~ChaosFixture() {
  if (input_of_workers_ >= 0) close(input_of_workers_);
}

testing::PostgresqlServerOptions ChaosFixture::durable(
    std::vector<testing::PostgresqlSetting> settings) const {
  return {.durable = true, .settings = std::move(settings), .folder = folder_.file("")};
}

std::string ChaosFixture::file_for_server(const std::string& name) const {
  return folder_.file(name);
}

void ChaosFixture::start_workers(const std::string& url, const std::vector<std::string>& by) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  input_of_workers_ = ends[1];
  for (unsigned slot = 0; slot < kWorkers; ++slot) {
    const std::string ledger = folder_.file(fmt::format("ledger-{}", slot));
    std::vector<std::string> command = by;
    for (const std::string& word :
         {std::string(ONCEBOX_CHAOS_WORKER), store_url(url), ledger, std::to_string(slot),
          std::to_string(instant_now() % 1'000'000)}) {
      command.push_back(word);
    }
    processes_.push_back({std::make_unique<testing::ChildProcess>(
                              command, testing::ChildProcessOptions{.input = ends[0]}),
                          workers::LedgerReader(ledger)});
  }
  close(ends[0]);
  expect_work_goes_on();
}

void ChaosFixture::require_alive(std::chrono::milliseconds time) {
  for (Process& process : processes_) {
    if (process.process->wait_for(time)) throw std::runtime_error("a worker ended by itself");
    time = 0ms;
  }
}

void ChaosFixture::wait_until(const std::string& what, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(fmt::format("waited in vain for {}", what));
    }
    require_alive(kLookAgain);
  }
}

void ChaosFixture::expect_work_goes_on(std::size_t messages) {
  const Instant since = instant_now();
  const auto works = [&](Process& process) {
    const std::vector<Event>& events = process.ledger.read();
    return count_since(since, events, is_answered) >= messages &&
           count_since(since, events, is_handled) >= messages;
  };
  wait_until("every worker to take in and handle messages",
             [&] { return std::ranges::all_of(processes_, works); });
}

std::size_t ChaosFixture::failed_calls(Instant since) {
  std::size_t failures = 0;
  for (Process& process : processes_) {
    failures += count_since(since, process.ledger.read(), is_failure);
  }
  return failures;
}

void ChaosFixture::expect_all_noticed(Instant since) {
  wait_until("a call of every worker to fail", [&] {
    return std::ranges::all_of(processes_, [&](Process& process) {
      return count_since(since, process.ledger.read(), is_failure) > 0;
    });
  });
}

void ChaosFixture::stop_workers() {
  close(std::exchange(input_of_workers_, -1));
  for (Process& process : processes_) {
    const auto status = process.process->wait_for(kPatience);
    if (!status) throw std::runtime_error("a worker has not finished what was left");
    if (!testing::exited_well(*status)) throw std::runtime_error("a worker has failed");
  }
}

void ChaosFixture::expect_nothing_lost(const std::string& url) {
  stop_workers();
  std::vector<workers::WorkerRun> runs;
  runs.reserve(processes_.size());
  for (Process& process : processes_) runs.push_back({.events = process.ledger.read()});
  const std::unique_ptr<Store> store = open_store(patient_store_url(url));
  workers::audit(*store, runs, workers::Expect::everything_ended);
}

}  // namespace oncebox::chaos
