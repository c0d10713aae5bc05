// What is done around handlers: time each call, write a batch in a transaction, hear of an end that
// comes later, try again by a policy of the handler's own, know the last attempt, and hear of the
// dead.

#include <chrono>
#include <exception>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"

namespace {

/// A table of one's own, with transactions.
class Table {
 public:
  void insert(std::string row) { rows_.push_back(std::move(row)); }
  void commit() {
    std::cout << "committed " << rows_.size() << " rows\n";
    rows_.clear();
  }
  void roll_back() { rows_.clear(); }

 private:
  std::vector<std::string> rows_;  // of this transaction
};

}  // namespace

int main() {
  using namespace oncebox;
  using namespace std::chrono_literals;

  memory::MemoryStore store;
  Inbox inbox(store);
  inbox.enqueue({.key = {"web", "order-1"}, .topic = "order.placed"});
  inbox.enqueue({.key = {"web", "order-2"}, .topic = "order.refused"});
  inbox.enqueue({.key = {"web", "row-1"}, .topic = "row"});
  inbox.enqueue({.key = {"web", "row-2"}, .topic = "row"});
  inbox.enqueue({.key = {"web", "mail-1"}, .topic = "mail"});

  Handlers handlers;
  // Around every handler of one message; whatever it throws comes out of `next`.
  handlers.around([](const ClaimedMessage& claimed, HandlerContext&, const NextHandler& next) {
    const auto began = std::chrono::steady_clock::now();
    next();
    const bool was_quick = std::chrono::steady_clock::now() - began < 10s;
    std::cout << claimed.message.topic << (was_quick ? " took a moment" : " took long") << '\n';
  });
  handlers.on("order.placed", [](const ClaimedMessage&, HandlerContext&) {});
  const auto refund = [](const ClaimedMessage&, HandlerContext& context) {
    if (context.is_last_attempt()) throw PermanentFailure("refunded, after the last attempt");
    throw std::runtime_error("the bank does not answer");
  };
  handlers.on("order.refused", refund,
              {.retry = RetryPolicy{.backoff = FixedDelay{1ms}, .max_attempts = 3}});

  Table table;
  // Around every batch. What is rolled back comes again, also what the handler has decided about.
  handlers.around_batch([&](std::span<BatchMessage> batch, const NextHandler& next) {
    try {
      next();
      table.commit();
    } catch (...) {
      table.roll_back();
      for (BatchMessage& message : batch) message.failed(std::current_exception());
    }
  });
  handlers.on_batch("row", [&](std::span<BatchMessage> rows) {
    for (const BatchMessage& row : rows) table.insert(row.message().message.key.message_id.str());
  });

  // Around the beginning of every handler that holds no thread; its end is told once.
  handlers.around_async(
      [](const ClaimedMessage& claimed, const HandlerContext&, const NextAsyncHandler& next) {
        const auto began = std::chrono::steady_clock::now();
        next([&claimed, began](const std::exception_ptr& failure) {
          const bool was_quick = std::chrono::steady_clock::now() - began < 10s;
          std::cout << claimed.message.topic << (failure ? " failed" : " ended")
                    << (was_quick ? " in a moment" : " late") << '\n';
        });
      });
  handlers.on_async("mail",
                    [](const ClaimedMessage&, Completion completion) { completion.done(); });

  // Once it is recorded.
  handlers.on_dead("order.*", [](const DeadMessage& dead) {
    std::cout << dead.claimed.message.topic << " is dead: " << dead.error << '\n';
  });

  Dispatcher dispatcher(store.inbox(), handlers, {.workers = 1});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = 30s, .due_within = 1min})) return 1;
}
