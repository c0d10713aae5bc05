// One of the processes that work while their server is tormented.
//
//   chaos_worker <url> <ledger> <slot> <seed>
//
// It takes in and handles messages until its input ends, and then handles what is left. What it
// does is written to the ledger. Whatever the store says, it goes on: a call that failed is
// repeated. It only gives up when told that repeating is useless.

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ledger.hpp"
#include "oncebox/error.hpp"
#include "oncebox/open_store.hpp"
#include "store_url.hpp"
#include "worker.hpp"
#include "workload.hpp"

namespace oncebox::chaos {
namespace {

using namespace workers;

// Longer than a server takes to come back: so a claim that it forgot would be noticed, because its
// holder is still there.
constexpr WorkerOptions kOptions{.lease = Duration{3'000}, .slow_work = Duration{1'500}};
constexpr std::size_t kMaxUnhandled = 300;

struct Assignment {
  unsigned slot = 0;
  unsigned seed = 0;
};

void offer_until_answered(Worker& worker, const std::string& id) {
  constexpr std::chrono::milliseconds kPause{10};
  for (;;) {
    try {
      worker.offer(id);
      return;
    } catch (const Error& error) {
      if (!error.retryable()) throw;
      take_time(kPause, {});
    }
  }
}

// Offers new messages, and now and then one again that this process or another one has offered or
// is about to.
void produce(Worker& worker, const Assignment& assignment, unsigned thread,
             const std::stop_token& stop) {
  std::mt19937 random(assignment.seed * 31 + thread);
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
  for (unsigned n = 1; !stop.stop_requested(); ++n) {
    const bool again = below(5) == 0;
    const unsigned slot = again ? below(kWorkers) : assignment.slot;
    offer_until_answered(worker,
                         fmt::format("free-{}-{}-{}", slot, thread, again ? 1 + below(n) : n));
    if (n % 16 != 0) continue;
    worker.progress().wait_until([&] {
      const auto unfinished = worker.perhaps_unfinished();
      return stop.stop_requested() || (unfinished && *unfinished < kMaxUnhandled);
    });
  }
}

// One after the other, in one partition: these must be handled in this order. Not faster than one
// after the other can be handled, or nothing else would be left to claim.
void produce_in_order(Worker& worker, const Assignment& assignment, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kPause{50};
  for (unsigned n = 1; !stop.stop_requested(); ++n) {
    offer_until_answered(worker, fmt::format("ordered-{}-{}", assignment.slot, n));
    take_time(kPause, {});
  }
}

void wait_for_end_of_input() {
  std::array<char, 16> ignored{};
  while (read(STDIN_FILENO, ignored.data(), ignored.size()) > 0) {
  }
}

// The first one makes the tables, which takes longer than a call may on a busy machine.
std::unique_ptr<Store> open_until_it_is_there(const std::string& url) {
  for (;;) {
    try {
      return open_store(url);
    } catch (const Error& error) {
      if (!error.retryable()) throw;
    }
  }
}

void work(const std::string& url, Ledger& ledger, const Assignment& assignment) {
  const std::unique_ptr<Store> store = open_until_it_is_there(url);
  Worker worker(*store, ledger, kOptions);
  worker.start();
  constexpr unsigned kProducers = 2;
  {
    std::vector<std::jthread> producers;
    producers.reserve(kProducers + 1);
    for (unsigned thread = 0; thread < kProducers; ++thread) {
      producers.emplace_back(
          [&, thread](const std::stop_token& stop) { produce(worker, assignment, thread, stop); });
    }
    producers.emplace_back(
        [&](const std::stop_token& stop) { produce_in_order(worker, assignment, stop); });
    wait_for_end_of_input();
  }
  worker.progress().wait_until([&] { return worker.perhaps_unfinished() == 0; });
}

}  // namespace
}  // namespace oncebox::chaos

int main(int count, char** arguments) {
  // A test that is stopped leaves nobody behind.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    const auto number = [&](std::size_t i) {
      return static_cast<unsigned>(std::stoul(words.at(i)));
    };
    oncebox::workers::Ledger ledger(words.at(1));
    oncebox::chaos::work(words.at(0), ledger, {.slot = number(2), .seed = number(3)});
    return 0;
  } catch (const std::exception& error) {
    std::fputs(fmt::format("chaos_worker: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
