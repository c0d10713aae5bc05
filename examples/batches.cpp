// Two ways to handle more than one message at a time on one thread: rows that are inserted
// together, and calls that wait for an answer without a thread.

#include <chrono>
#include <iostream>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"

namespace {

using namespace oncebox;

/// A client whose answers come later, on a thread of its own, as those of a network would.
class Client {
 public:
  void call(const std::string& number, Completion completion) {
    callers_.emplace_back([number, completion = std::move(completion)]() mutable {
      if (number == "555") return completion.failed(PermanentFailure("no such number"));
      completion.done();
    });
  }

 private:
  std::vector<std::jthread> callers_;
};

}  // namespace

int main() {
  using namespace std::chrono_literals;

  memory::MemoryStore store;
  Inbox inbox(store);
  for (const char* row : {"ann", "bob", "", "dee"}) {
    inbox.enqueue({.key = {"import", row + std::string("-row")}, .topic = "row", .payload = row});
  }
  for (const char* number : {"123", "555"}) {
    inbox.enqueue({.key = {"phone", number}, .topic = "call", .payload = number});
  }

  Handlers handlers;
  const auto insert = [](std::span<BatchMessage> rows) {
    for (BatchMessage& row : rows) {
      const bool is_empty = row.message().message.payload.bytes().empty();
      if (is_empty) row.failed(PermanentFailure("an empty row"));
    }
    // Those that are not decided are done when this returns.
    std::cout << "inserted " << rows.size() << " rows at once\n";
  };
  handlers.on_batch("row", insert, {.max_messages = 500});

  Client client;
  handlers.on_async("call", [&](const ClaimedMessage& message, Completion completion) {
    client.call(message.message.payload.bytes(), std::move(completion));
  });

  Dispatcher dispatcher(store.inbox(), handlers, {.workers = 1});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = 30s})) return 1;
  const RunningStats stats = dispatcher.stats();
  std::cout << "handled " << stats.handled << ", dead " << stats.dead << '\n';
}
