// The processes that the tests of publishing kill.
//
//   publishing_worker send <store> <connection> <table> <ledger> <first> <count> <step> <n> <us>
//     sends two messages in each of `count` transactions of its own, of which some are rolled back
//   publishing_worker publish <store> <step> <n> <us>
//     publishes until it is killed
//   publishing_worker drain <store>
//     publishes until nothing is left
//
// Both kill themselves at `step` of the n-th transaction or message, `us` microseconds later.

#include <fmt/format.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ledger.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/postgresql/transaction.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/sqlite/transaction.hpp"
#include "run_sql.hpp"
#include "worker.hpp"

namespace oncebox::effects {
namespace {

using namespace std::chrono_literals;
using workers::EventKind;

/// Where the process is to die.
struct Death {
  std::string step;
  std::size_t number = 0;  ///< of those that reach the step
  std::chrono::microseconds later{0};
};

class Fate {
 public:
  explicit Fate(Death death) : death_(std::move(death)) {}

  /// So many messages or transactions have come to this step. A death that comes later lets the
  /// caller go on meanwhile; the destructor waits for it.
  void reach(const std::string& step, std::size_t count = 1) {
    if (step != death_.step || (reached_ += count) < death_.number) return;
    if (death_.later == 0us) workers::die();
    std::call_once(ending_, [&] {
      killer_ = std::jthread([until = std::chrono::steady_clock::now() + death_.later] {
        while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
        workers::die();
      });
    });
  }

 private:
  const Death death_;
  std::atomic<std::size_t> reached_ = 0;
  std::once_flag ending_;
  std::jthread killer_;
};

/// Comes to the steps "<queue>-claimed", "-enqueued", "-settling" and "-settled".
class FatedQueue final : public ForwardingQueueStore {
 public:
  FatedQueue(QueueStore& below, std::string name, Fate& fate)
      : ForwardingQueueStore(below), name_(std::move(name)), fate_(fate) {}

 private:
  ClaimResult do_claim(const ClaimRequest& request) override {
    ClaimResult claimed = below().claim(request);
    if (!claimed.empty()) fate_.reach(name_ + "-claimed", claimed.size());
    return claimed;
  }
  // The commit of an enqueue may hand out what it brings.
  void do_offer(const std::shared_ptr<ClaimOffer>& offer) override {
    offer->observe([this](std::span<const ClaimedMessage> claimed) {
      fate_.reach(name_ + "-claimed", claimed.size());
    });
    below().offer(offer);
  }
  std::vector<EnqueueOutcome> do_enqueue(std::span<const Message> messages,
                                         const EnqueueOptions& options) override {
    std::vector<EnqueueOutcome> outcomes = below().enqueue(messages, options);
    fate_.reach(name_ + "-enqueued", messages.size());
    return outcomes;
  }
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override {
    fate_.reach(name_ + "-settling", settlements.size());
    std::vector<SettleOutcome> outcomes = below().settle(settlements);
    fate_.reach(name_ + "-settled", settlements.size());
    return outcomes;
  }

  const std::string name_;
  Fate& fate_;
};

class FatedStore final : public ForwardingStore {
 public:
  FatedStore(Store& below, Fate& fate)
      : ForwardingStore(below),
        outbox_(below.outbox(), "outbox", fate),
        deliveries_(below.deliveries(), "delivery", fate) {}

  [[nodiscard]] QueueStore& outbox() override { return outbox_; }
  [[nodiscard]] QueueStore& deliveries() override { return deliveries_; }

 private:
  FatedQueue outbox_;
  FatedQueue deliveries_;
};

/// What a killed process held comes back soon.
DispatcherOptions quick(std::size_t workers) {
  return {.workers = workers,
          .batch_size = 8,
          .lease = 500ms,
          .poll_interval = 50ms,
          .max_poll_interval = 50ms,
          .reap_interval = 100ms};
}

void publish_until(const std::string& url, Fate& fate, const std::function<bool(Store&)>& end) {
  const auto store = open_store(url);
  FatedStore fated(*store, fate);
  publish::Publishing publishing(fated, {.fan_out = quick(4), .deliveries = quick(16)});
  publishing.start();
  while (!end(*store)) workers::take_time(10ms, {});
  publishing.stop();
}

[[nodiscard]] bool is_empty(Store& store) {
  const MessageFilter unfinished{.statuses = {Status::processing}};
  // In this order: what leaves the one comes into the other before.
  return store.outbox_operator().count(unfinished) == 0 &&
         store.deliveries_operator().count(unfinished) == 0;
}

/// The sender's own connection to the database of a store.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void run(const std::string& sql) = 0;
  virtual void begin() = 0;
  [[nodiscard]] virtual Transaction& transaction() = 0;
};

class SqliteConnection final : public Connection {
 public:
  explicit SqliteConnection(const std::string& path) {
    sqlite3* opened = nullptr;
    const int code = sqlite3_open(path.c_str(), &opened);
    database_.reset(opened);
    if (code != SQLITE_OK) throw std::runtime_error("no file");
    sqlite3_busy_timeout(opened, 60'000);
    transaction_.emplace(opened);
  }
  void run(const std::string& sql) override { run_sql(database_.get(), sql); }
  void begin() override { run("BEGIN IMMEDIATE"); }
  [[nodiscard]] Transaction& transaction() override { return *transaction_; }

 private:
  std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)> database_{nullptr, &sqlite3_close_v2};
  std::optional<sqlite::JoinedTransaction> transaction_;
};

class PostgresqlConnection final : public Connection {
 public:
  PostgresqlConnection(const std::string& server, const std::string& schema)
      : connection_(PQconnectdb(server.c_str()), &PQfinish),
        transaction_(connection_.get(), {.schema = schema}) {}
  void run(const std::string& sql) override { run_sql(connection_.get(), sql); }
  void begin() override { run("BEGIN"); }
  [[nodiscard]] Transaction& transaction() override { return transaction_; }

 private:
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  postgresql::JoinedTransaction transaction_;
};

struct Sending {
  std::string url;
  std::string connection;
  std::string table;
  std::string ledger;
  unsigned first = 0;
  unsigned count = 0;
};

[[nodiscard]] std::unique_ptr<Connection> connect(const Sending& sending) {
  if (sending.url.starts_with("sqlite:")) {
    return std::make_unique<SqliteConnection>(sending.connection);
  }
  const std::string schema = sending.table.substr(0, sending.table.find('.'));
  return std::make_unique<PostgresqlConnection>(sending.connection, schema);
}

/// Everything follows from the number of the transaction, so that the test knows what was sent.
[[nodiscard]] std::vector<OutboxMessage> messages_of(unsigned number) {
  return {{.topic = "order.paid",
           .payload = fmt::format("order {}", number),
           .id = MessageId(fmt::format("order-{}", number)),
           .partition_key = PartitionKey(fmt::format("customer-{}", number % 3))},
          {.topic = "mail.sent",
           .payload = fmt::format("mail {}", number),
           .id = MessageId(fmt::format("mail-{}", number))}};
}

void send(const Sending& sending, Fate& fate) {
  const auto store = open_store(sending.url);
  const auto connection = connect(sending);
  Outbox outbox(*store, {.source = "shop"});
  workers::Ledger ledger(sending.ledger);
  for (unsigned number = sending.first; number < sending.first + sending.count; ++number) {
    ledger.add({.kind = EventKind::offered, .id = std::to_string(number)});
    connection->begin();
    connection->run(
        fmt::format("INSERT INTO {} (name, times) VALUES ('{}', 1)", sending.table, number));
    outbox.enqueue_all(messages_of(number), connection->transaction());
    fate.reach("before-commit");
    const bool is_kept = number % 4 != 3;
    connection->run(is_kept ? "COMMIT" : "ROLLBACK");
    fate.reach("after-commit");
    ledger.add({.kind = EventKind::answered,
                .id = std::to_string(number),
                .word = is_kept ? "committed" : "rolled-back"});
  }
}

int run(const std::vector<std::string>& arguments) {
  const std::string& mode = arguments.at(0);
  const std::string& url = arguments.at(1);
  const auto number = [&](std::size_t i) {
    return static_cast<unsigned>(std::stoul(arguments.at(i)));
  };
  const auto death_from = [&](std::size_t i) -> Death {
    return {arguments.at(i), number(i + 1), std::chrono::microseconds(number(i + 2))};
  };
  if (mode == "send") {
    Fate fate(death_from(7));
    send({.url = url,
          .connection = arguments.at(2),
          .table = arguments.at(3),
          .ledger = arguments.at(4),
          .first = number(5),
          .count = number(6)},
         fate);
  } else if (mode == "publish") {
    Fate fate(death_from(2));
    publish_until(url, fate, [](Store&) { return false; });
  } else if (mode == "drain") {
    Fate fate({});
    publish_until(url, fate, is_empty);
  } else {
    throw std::invalid_argument("unknown mode " + mode);
  }
  return 0;
}

}  // namespace
}  // namespace oncebox::effects

int main(int count, char** arguments) {
  // A test that is stopped leaves nobody behind.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    return oncebox::effects::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fputs(fmt::format("publishing_worker: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
