// Takes in webhooks as an HTTP server would: from many threads, each event twice, one of them with
// other content the second time.
//
// usage: example_webhook_intake [STORE-URL]

#include <atomic>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "example_store.hpp"
#include "oncebox/inbox.hpp"

namespace {

using namespace oncebox;

/// What the sender posts, after its signature was checked.
struct Webhook {
  std::string id;      ///< the sender's; the same in every delivery of an event
  std::string digest;  ///< SHA-256 of the body, as the sender computed it
  std::string body;
};

struct Reply {
  int status = 200;
  std::string text = {};
};

/// Answers only when the message is on the disk. A duplicate gets the answer of the first delivery:
/// all that the sender wants to know is whether it may stop sending.
Reply receive(Inbox& inbox, const Webhook& webhook) {
  try {
    const EnqueueOutcome outcome = inbox.enqueue({
        .key = {.source = "shop", .message_id = webhook.id},
        .topic = "order.created",
        .payload = webhook.body,
        .hash = ContentHash("sha256", webhook.digest),
    });
    if (outcome.hash_mismatch) std::cout << "warning: " << webhook.id << " has changed\n";
    return {.text = std::string(to_string(outcome.status))};
  } catch (const Error& error) {
    // 400 tells the sender that this will never do; 503 makes it try again later.
    const bool its_fault =
        error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::out_of_range;
    return {.status = its_fault ? 400 : 503, .text = error.what()};
  }
}

Webhook event(int number, const std::string& body) {
  return {.id = "evt_" + std::to_string(number), .digest = sha256(body), .body = body};
}

void print(const Reply& reply) { std::cout << reply.status << ' ' << reply.text << '\n'; }

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  Inbox inbox(*store);

  // Neighbours bring the same events, so many duplicates arrive while the original is being stored.
  // The calls that wait for the disk at one time share one transaction.
  constexpr int kThreads = 8;
  constexpr int kEvents = 400;
  std::atomic<int> accepted = 0;
  std::atomic<int> duplicates = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int number = 0; number < kEvents; ++number) {
          const bool brings_it = number % kThreads == thread || (number + 1) % kThreads == thread;
          if (!brings_it) continue;
          const Reply reply = receive(inbox, event(number, "order " + std::to_string(number)));
          if (reply.text == "accepted") ++accepted;
          if (reply.text == "duplicate") ++duplicates;
        }
      });
    }
  }
  std::cout << accepted << " accepted, " << duplicates << " duplicates\n";

  print(receive(inbox, event(7, "order 7")));
  print(receive(inbox, event(7, "order 7, and something else")));
  print(receive(inbox, {.id = "", .digest = sha256("order"), .body = "order"}));
  std::cout << store->inbox_operator().stats().total().ready << " wait for a worker\n";
}
