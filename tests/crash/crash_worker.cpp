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

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ledger.hpp"
#include "oncebox/dispatcher.hpp"
#include "oncebox/error.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "recording_queue.hpp"
#include "small_disk.hpp"
#include "workload.hpp"

namespace oncebox::crash {
namespace {

constexpr std::size_t kMaxUnhandled = 200;

/// Wakes those who wait for the work to get on.
class Progress final : public Observer {
 public:
  void on_settle(const Settlement& /*settlement*/, SettleOutcome /*outcome*/) noexcept override {
    settled_.notify_all();
  }
  void on_store_call(std::string_view /*call*/, std::size_t /*items*/,
                     std::chrono::nanoseconds /*took*/, bool failed) noexcept override {
    if (!failed) return;
    failed_ = true;
    settled_.notify_all();
  }

  /// Asks again after each settlement, and now and then for what other processes settle.
  template <class Condition>
  void wait_until(Condition condition) {
    constexpr std::chrono::milliseconds kAskAgain{20};
    std::unique_lock lock(mutex_);
    while (!condition()) settled_.wait_for(lock, kAskAgain);
  }

  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  std::mutex mutex_;
  std::condition_variable settled_;
  std::atomic<bool> failed_ = false;
};

[[noreturn]] void die() {
  std::raise(SIGKILL);
  std::abort();
}

// Works for so long, unless it is stopped.
void take_time(std::chrono::microseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  if (stop.stop_requested()) throw std::runtime_error("stopped");
}

/// A store, an inbox and a dispatcher on one file.
class Worker {
 public:
  Worker(const std::string& database, Ledger& ledger)
      : ledger_(ledger),
        store_({.path = database}),
        queue_(store_.inbox(), ledger),
        inbox_(store_, {}, logger_, progress_, clock_),
        dispatcher_(queue_, handlers(), dispatcher_options(), logger_, progress_, clock_) {}

  /// Answers when the message is taken in, and how; throws what the inbox throws.
  EnqueueStatus offer(const std::string& id) { return offer(message_of(id, clock_.now())); }
  EnqueueStatus offer(const Message& message) {
    const std::string& id = message.key.message_id.str();
    ledger_.add({.kind = EventKind::offered, .id = id});
    try {
      const EnqueueOutcome outcome = inbox_.enqueue(message);
      const std::string word(to_string(outcome.status));
      ledger_.add({.kind = EventKind::answered, .id = id, .word = word});
      return outcome.status;
    } catch (const Error& error) {
      const std::string word(to_string(error.code()));
      ledger_.add({.kind = EventKind::refused, .id = id, .word = word});
      throw;
    }
  }

  void start() { dispatcher_.start(); }

  /// Until the store has nothing left to hand out, now or later.
  void drain() {
    progress_.wait_until([this] { return unfinished() == 0; });
  }

  [[nodiscard]] std::size_t unfinished() {
    const TopicStats total = store_.inbox_operator().stats().total();
    return total.ready + total.waiting + total.leased;
  }

  [[nodiscard]] Progress& progress() noexcept { return progress_; }
  [[nodiscard]] QueueStore& queue() noexcept { return store_.inbox(); }

 private:
  Handlers handlers() {
    Handlers handlers;
    handlers.on("*", [this](const ClaimedMessage& claimed, HandlerContext& context) {
      const std::string& id = claimed.message.key.message_id.str();
      const auto delivery = static_cast<std::uint64_t>(claimed.delivery);
      ledger_.add({.kind = EventKind::begun, .id = id, .delivery = delivery});
      work_on(claimed, context.stop_token());
      ledger_.add({.kind = EventKind::ended, .id = id, .delivery = delivery});
      conclude(claimed);
    });
    return handlers;
  }

  void work_on(const ClaimedMessage& claimed, const std::stop_token& stop) {
    const Plan plan = plan_of(claimed.message.topic);
    if (plan == Plan::kills_its_worker) {
      // The others shall not share its fate.
      progress_.wait_until([this] { return unfinished() == 1; });
      die();
    }
    constexpr std::chrono::microseconds kQuick{500};
    take_time(plan == Plan::succeeds_slowly ? kLease + kLease / 2 : kQuick, stop);
  }

  static void conclude(const ClaimedMessage& claimed) {
    const Plan plan = plan_of(claimed.message.topic);
    if (plan == Plan::fails_for_good) throw PermanentFailure("for good");
    const bool stumbles = plan == Plan::stumbles && claimed.history.attempt == 0;
    if (plan == Plan::fails || stumbles) throw std::runtime_error("for now");
  }

  Ledger& ledger_;
  SystemClock clock_;
  NullLogger logger_;
  Progress progress_;
  sqlite::SqliteStore store_;
  RecordingQueue queue_;
  Inbox inbox_;
  Dispatcher dispatcher_;
};

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
  Worker worker(database, ledger);
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
  Worker worker(database, ledger);
  worker.start();
  worker.drain();
}

enum class WhenRefused { repeat, die };

void feed(const std::string& database, Ledger& ledger, int count, WhenRefused when_refused) {
  constexpr int kMostTries = 100;
  Worker worker(database, ledger);
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
  constexpr std::size_t kBallastBytes = std::size_t{1} << 20;
  write_file(ballast, kBallastBytes);

  const std::string database = disk + "/oncebox.db";
  Worker worker(database, ledger);
  int n = offer_until_full(worker, 8'000, 1, 1);
  n = offer_until_full(worker, 1, 3, n);
  write_file(filler, 2 * kBallastBytes);
  note("full");
  if (worker.queue().find(key_of("filling-1")) && worker.unfinished() > 0) note("read");
  sqlite::SqliteStore newcomer({.path = database});
  if (newcomer.inbox().find(key_of("filling-1"))) note("read-by-another");
  worker.start();
  worker.progress().wait_until([&] { return worker.progress().failed(); });
  note("failed");

  std::filesystem::remove(filler);
  std::filesystem::remove(ballast);
  note("freed");
  offer_filling(worker, n, 1);
  worker.drain();
}

void fill(const std::string& folder, Ledger& ledger) {
  constexpr std::size_t kDiskBytes = std::size_t{4} << 20;
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
