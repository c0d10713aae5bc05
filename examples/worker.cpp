// A worker with retries and dead letters, and an operator who brings a dead message back.
//
// usage: example_worker [STORE-URL]

#include <atomic>
#include <chrono>
#include <iostream>
#include <sstream>

#include "example_store.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"

using namespace std::chrono_literals;

struct Invoice {
  std::string customer;
  int cents = 0;
};

// Whatever it throws means that the payload is no invoice: no retry would help.
template <>
struct oncebox::PayloadCodec<Invoice> {
  static Invoice decode(const Payload& payload) {
    std::istringstream text(payload.bytes());
    Invoice invoice;
    if (!(text >> invoice.customer >> invoice.cents)) throw std::invalid_argument("no invoice");
    return invoice;
  }
};

namespace {

using namespace oncebox;

void print_all(QueueOperator& queue) {
  for (const MessageRecord& record : queue.list({}).records) {
    std::cout << "  " << record.key << ' ' << to_string(record.status) << ", deliveries "
              << record.history.deliveries
              << ", last error: " << record.history.last_error.value_or("-") << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  Inbox inbox(*store);
  for (const std::string text : {"ann 4200", "bob 1300", "cyd 900", "dee 700", "eve a lot"}) {
    inbox.enqueue({.key = {"shop", text.substr(0, 3)}, .topic = "invoice.send", .payload = text});
  }

  std::atomic<bool> cyd_has_an_address = false;
  const auto send = [&](const Invoice& invoice, HandlerContext& context) {
    const bool first_time = context.message().history.attempt == 0;
    if (invoice.customer == "bob" && first_time) throw RetryAfter(20ms, "the mail server is busy");
    if (invoice.customer == "cyd" && !cyd_has_an_address) throw PermanentFailure("no address");
    if (invoice.customer == "dee") throw std::runtime_error("the mail server hung up");
  };
  Handlers handlers;
  handlers.on<Invoice>("invoice.send", send,
                       {.max_concurrency = 2, .rate = RateLimit{.count = 100, .per = 1s}});

  // The policy of these topics; for all others the rules of the store hold.
  RetryPolicies retries;
  retries.set("invoice.*", {.backoff = FixedDelay{20ms}, .max_attempts = 3});

  const SystemClock clock;
  TextLogger logger(std::cerr, clock);
  Dispatcher dispatcher(store->inbox(), handlers, {.workers = 2, .retries = retries},
                        {.logger = logger});
  dispatcher.start();
  // Until all of them are handled or given up, retries included.
  const IdleOptions all_done{.timeout = 30s, .due_within = 1min};
  if (!dispatcher.wait_until_idle(all_done)) throw std::runtime_error("this takes too long");
  std::cout << "handled or given up:\n";
  print_all(store->inbox_operator());

  // The operator has found out where Cyd lives. Revived messages get all their attempts anew.
  cyd_has_an_address = true;
  const MessageFilter without_address{.error_contains = "no address"};
  store->inbox_operator().revive_matching(without_address, {.reason = "address added"}, 100);
  if (!dispatcher.wait_until_idle(all_done)) throw std::runtime_error("this takes too long");
  dispatcher.stop();
  const auto cyd = store->inbox().find({"shop", "cyd"});
  std::cout << cyd->key << " is " << to_string(cyd->status) << '\n';

  const RunningStats stats = dispatcher.stats();
  std::cout << "handled " << stats.handled << ", retried " << stats.retried << ", dead "
            << stats.dead << '\n';
}
