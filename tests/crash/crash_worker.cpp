// The process that the crash tests kill. What it does is written to a ledger, from which the parent
// knows what must be in the store.
//
//   crash_worker work <database> <ledger> <slot> <run> <seed>   takes in and handles, until killed
//   crash_worker drain <database> <ledger>                      handles until nothing is left
//   crash_worker feed <database> <ledger> <count>               takes in, one after the other
//   crash_worker feed-once <database> <ledger> <count>          the same, and dies when refused
//   crash_worker fill <folder> <ledger>                         works on a disk that is full

#include <fmt/format.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ledger.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "small_disk.hpp"
#include "worker.hpp"
#include "workload.hpp"

namespace oncebox::crash {
namespace {

using namespace workers;

constexpr std::size_t kMaxUnhandled = 200;
constexpr WorkerOptions kOptions{.lease = Duration{400}, .slow_work = Duration{600}};

// Another process may hold the lock for long on a busy machine.
sqlite::Options store_options(const std::string& database) {
  return {.path = database, .busy_timeout = std::chrono::seconds{60}};
}

struct Shift {
  std::string slot;
  unsigned run = 0;
  unsigned seed = 0;
};

// Offers new messages, and now and then an old one again: one that this process or an earlier one
// has offered, whether that was answered or not.
void produce(Worker& worker, const Shift& shift, unsigned thread) {
  constexpr unsigned kOffers = 400;
  std::mt19937 random(shift.seed * 31 + thread);
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
  for (unsigned n = 1; n <= kOffers; ++n) {
    const bool again = below(5) == 0;
    worker.offer(fmt::format("free-{}-{}-{}-{}", shift.slot, thread,
                             again ? below(shift.run + 1) : shift.run, again ? below(n) : n));
    if (n % 16 == 0) {
      worker.progress().wait_until([&] { return worker.unfinished() < kMaxUnhandled; });
    }
  }
}

// One after the other, in one partition: these must be handled in this order.
void produce_in_order(Worker& worker, const Shift& shift) {
  constexpr unsigned kOffers = 100;
  for (unsigned n = 1; n <= kOffers; ++n) {
    worker.offer(fmt::format("ordered-{}-{}-{}", shift.slot, shift.run, n));
  }
}

void work(const std::string& database, Ledger& ledger, const Shift& shift) {
  sqlite::SqliteStore store(store_options(database));
  Worker worker(store, ledger, kOptions);
  worker.start();
  constexpr unsigned kProducers = 3;
  std::vector<std::jthread> producers;
  producers.reserve(kProducers + 1);
  for (unsigned thread = 0; thread < kProducers; ++thread) {
    producers.emplace_back([&, thread] { produce(worker, shift, thread); });
  }
  producers.emplace_back([&] { produce_in_order(worker, shift); });
  worker.progress().wait_until([] { return false; });
}

void drain(const std::string& database, Ledger& ledger) {
  sqlite::SqliteStore store(store_options(database));
  Worker worker(store, ledger, kOptions);
  worker.start();
  worker.drain();
}

enum class WhenRefused { repeat, die };

void feed(const std::string& database, Ledger& ledger, int count, WhenRefused when_refused) {
  constexpr int kMostTries = 100;
  sqlite::SqliteStore store(store_options(database));
  Worker worker(store, ledger, kOptions);
  for (int n = 1; n <= count; ++n) {
    for (int tries = 1;; ++tries) {
      try {
        worker.offer(fmt::format("fed-{}", n));
        break;
      } catch (const Error&) {
        if (when_refused == WhenRefused::die) die();
        if (tries == kMostTries) throw;
      }
    }
  }
}

void offer_filling(Worker& worker, int n, std::size_t bytes) {
  worker.offer({.key = key_of(fmt::format("filling-{}", n)),
                .topic = topic_of(Plan::succeeds),
                .payload = std::string(bytes, 'x')});
}

// Offers messages of this size until `refusals` in a row did not fit. A transaction that fails
// leaves the log longer than it was, so that a smaller one may still find room there.
int offer_until_full(Worker& worker, std::size_t bytes, int refusals, int first) {
  int n = first;
  for (int refused = 0; refused < refusals;) {
    try {
      offer_filling(worker, n, bytes);
      refused = 0;
      ++n;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::overloaded) throw;
      ++refused;
    }
  }
  return n;
}

void work_on_full_disk(const std::string& disk, Ledger& ledger) {
  const std::string ballast = disk + "/ballast";
  const std::string filler = disk + "/filler";
  const auto note = [&](const char* word) { ledger.add({.word = word}); };
  // So much that the log has room for everything that is still to be done, also one by one: there
  // is none to copy it into the database.
  constexpr std::size_t kBallastBytes = std::size_t{6} << 20;
  write_file(ballast, kBallastBytes);

  const std::string database = disk + "/oncebox.db";
  sqlite::SqliteStore store(store_options(database));
  Worker worker(store, ledger, kOptions);
  int n = offer_until_full(worker, 8'000, 1, 1);
  n = offer_until_full(worker, 1, 3, n);
  write_file(filler, 2 * kBallastBytes);
  note("full");
  if (store.inbox().find(key_of("filling-1")) && worker.unfinished() > 0) note("read");
  sqlite::SqliteStore newcomer(store_options(database));
  if (newcomer.inbox().find(key_of("filling-1"))) note("read-by-another");
  worker.start();
  worker.progress().wait_until([&] { return worker.progress().failed(); });
  note("failed");
  if (store.health().status == HealthStatus::unavailable) note("unavailable");

  std::filesystem::remove(filler);
  std::filesystem::remove(ballast);
  note("freed");
  if (store.health().status == HealthStatus::healthy) note("healthy");
  offer_filling(worker, n, 1);
  worker.drain();
}

void fill(const std::string& folder, Ledger& ledger) {
  constexpr std::size_t kDiskBytes = std::size_t{8} << 20;
  const std::string disk = folder + "/disk";
  std::filesystem::create_directory(disk);
  mount_small_disk(disk, kDiskBytes);
  work_on_full_disk(disk, ledger);
  // The disk is gone with this process. There may be no room to copy all of the log into the
  // database, so it belongs to it.
  for (const char* file : {"/oncebox.db", "/oncebox.db-wal"}) {
    if (std::filesystem::exists(disk + file))
      std::filesystem::copy_file(disk + file, folder + file);
  }
}

int run(const std::vector<std::string>& arguments) {
  const std::string& mode = arguments.at(0);
  const std::string& place = arguments.at(1);
  Ledger ledger(arguments.at(2));
  const auto number = [&](std::size_t i) {
    return static_cast<unsigned>(std::stoul(arguments.at(i)));
  };
  if (mode == "work") {
    work(place, ledger, {.slot = arguments.at(3), .run = number(4), .seed = number(5)});
  } else if (mode == "drain") {
    drain(place, ledger);
  } else if (mode == "feed" || mode == "feed-once") {
    const WhenRefused when_refused = mode == "feed" ? WhenRefused::repeat : WhenRefused::die;
    feed(place, ledger, static_cast<int>(number(3)), when_refused);
  } else if (mode == "fill") {
    fill(place, ledger);
  } else {
    throw std::invalid_argument("unknown mode " + mode);
  }
  return 0;
}

}  // namespace
}  // namespace oncebox::crash

int main(int count, char** arguments) {
  // A test that is stopped leaves nobody behind.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    return oncebox::crash::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fputs(fmt::format("crash_worker: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
