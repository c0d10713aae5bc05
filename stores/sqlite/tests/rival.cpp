// A second program on the same file: enqueues the messages 0 to N-1 as everybody else does, then
// claims and acknowledges whatever it is given until all are done. Prints "ready", waits for a
// line, and then prints one line for each message that was accepted from it or handled by it.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "oncebox/sqlite/sqlite_store.hpp"

namespace {

using namespace oncebox;

constexpr std::size_t kBatch = 7;

void enqueue_all(QueueStore& queue, std::size_t count) {
  std::vector<Message> messages;
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back({.key = {"shop", std::to_string(i)}, .topic = "order.created"});
    if (messages.size() < kBatch && i + 1 < count) continue;
    const std::vector<EnqueueOutcome> outcomes = queue.enqueue(messages);
    for (std::size_t at = 0; at < messages.size(); ++at) {
      if (outcomes[at].status != EnqueueStatus::accepted) continue;
      fmt::print("accepted {}\n", messages[at].key.message_id.str());
    }
    messages.clear();
  }
}

void handle_until_all_are_done(Store& store, std::size_t count) {
  // None of them lapses, however busy the machine is.
  const ClaimRequest request{
      .owner = OwnerToken::generate(), .lease = std::chrono::minutes{10}, .limit = kBatch};
  while (store.inbox_operator().stats().total().done < count) {
    for (const ClaimedMessage& claimed : store.inbox().claim(request)) {
      fmt::print("handled {}\n", claimed.message.key.message_id.str());
      store.inbox().settle({.delivery = delivery_of(claimed)});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: sqlite_rival PATH COUNT\n");
    return 2;
  }
  sqlite::SqliteStore store({.path = argv[1], .busy_timeout = std::chrono::seconds{60}});
  const std::size_t count = std::stoul(argv[2]);
  fmt::print("ready\n");
  std::fflush(stdout);
  enqueue_all(store.inbox(), count);
  handle_until_all_are_done(store, count);
}
