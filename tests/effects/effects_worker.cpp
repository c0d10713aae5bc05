// The process that the tests of effects kill: a dispatcher whose handler counts each message in a
// table of its own and sends a receipt, inside the store's transaction.
//
//   effects_worker <store> <step> <n>   kills itself at this step of the n-th call of its handler
//   effects_worker <store> drain 0      handles until nothing is left

#include <fmt/format.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/postgresql/transaction.hpp"
#include "oncebox/sqlite/transaction.hpp"
#include "run_sql.hpp"
#include "worker.hpp"

namespace oncebox::effects {
namespace {

using namespace std::chrono_literals;

/// Where the process is to die.
class Fate {
 public:
  Fate(std::string step, unsigned call) : step_(std::move(step)), call_(call) {}

  /// Nobody begins anything new while the end is near: however late that comes, work is left.
  void begin_call() {
    while (is_ending_) ::pause();
    ++calls_;
  }
  void reach(const std::string& step) const {
    if (step == step_ && calls_ >= call_) workers::die();
  }
  /// Some moment after the handler has returned: before, during or after the commit.
  void begin_to_end() {
    if (!step_.starts_with("after-us:") || calls_ < call_) return;
    const std::chrono::microseconds time(std::stol(step_.substr(9)));
    std::call_once(ending_, [&] {
      is_ending_ = true;
      const auto until = std::chrono::steady_clock::now() + time;
      killer_ = std::jthread([until] {
        while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
        workers::die();
      });
    });
  }

 private:
  const std::string step_;
  const unsigned call_;
  std::atomic<unsigned> calls_ = 0;
  std::once_flag ending_;
  std::atomic<bool> is_ending_ = false;
  std::jthread killer_;
};

class CountingHandler final : public TransactionalHandler {
 public:
  CountingHandler(bool is_sqlite, Outbox& outbox, Fate& fate)
      : is_sqlite_(is_sqlite), outbox_(outbox), fate_(fate) {}

  void handle(const ClaimedMessage& message, Transaction& transaction,
              HandlerContext& context) override {
    fate_.begin_call();
    fate_.reach("at-first");
    const std::string id = message.message.key.message_id.str();
    run(transaction, fmt::format("INSERT INTO {0} (name, times) VALUES ('{1}', 1) "
                                 "ON CONFLICT (name) DO UPDATE SET times = {0}.times + 1",
                                 table(message), id));
    fate_.reach("after-row");
    outbox_.enqueue({.topic = "receipt", .payload = id, .id = MessageId("receipt of " + id)},
                    transaction, context);
    fate_.reach("after-message");
    // What was written is taken back, and the failure recorded.
    if (message.history.attempt == 0 && std::stoul(id) % 7 == 0) throw RetryAfter(1ms, "once");
    fate_.reach("at-last");
    fate_.begin_to_end();
  }

 private:
  // Told by whoever made it.
  static std::string table(const ClaimedMessage& message) {
    return std::string(message.message.headers.get("table").value());
  }
  void run(Transaction& transaction, const std::string& sql) const {
    if (is_sqlite_) {
      run_sql(sqlite::database_of(transaction), sql);
    } else {
      run_sql(postgresql::connection_of(transaction), sql);
    }
  }

  const bool is_sqlite_;
  Outbox& outbox_;
  Fate& fate_;
};

void work(const std::string& url, Fate& fate) {
  const auto store = open_store(url);
  store->policies().update(QueueKind::inbox, "*", {.max_deliveries = 1'000});
  Outbox outbox(*store, {.source = "shop"});
  Handlers handlers;
  handlers.on("order.paid",
              std::make_shared<CountingHandler>(url.starts_with("sqlite:"), outbox, fate));
  // What a killed process held comes back soon, and however often.
  Dispatcher dispatcher(
      store->inbox(), handlers,
      {.workers = 4, .lease = 500ms, .poll_interval = 50ms, .max_poll_interval = 50ms});
  dispatcher.start();
  const auto unfinished = [&] {
    return store->inbox_operator().count({.statuses = {Status::processing}});
  };
  while (unfinished() > 0) std::this_thread::yield();
  dispatcher.stop();
}

}  // namespace
}  // namespace oncebox::effects

int main(int count, char** arguments) {
  // A test that is stopped leaves nobody behind.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    if (count != 4) throw std::invalid_argument("three arguments are wanted");
    oncebox::effects::Fate fate(arguments[2], static_cast<unsigned>(std::stoul(arguments[3])));
    oncebox::effects::work(arguments[1], fate);
    return 0;
  } catch (const std::exception& error) {
    std::fputs(fmt::format("effects_worker: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
