// Messages with a due time, a priority and an expiry.
//
// usage: example_scheduled_messages [STORE-URL]

#include <chrono>
#include <iostream>
#include <semaphore>

#include "example_store.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"

namespace {

using namespace oncebox;
using namespace std::chrono_literals;

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  Inbox inbox(*store);
  const TimePoint now = SystemClock::current();

  const Priority urgent(10);
  inbox.enqueue({.key = {"shop", "newsletter"}, .topic = "mail", .priority = -10});
  inbox.enqueue({.key = {"shop", "receipt"}, .topic = "mail"});
  inbox.enqueue({.key = {"shop", "password reset"}, .topic = "mail", .priority = urgent});
  // However urgent, it waits until it is due. Meanwhile others are handled.
  inbox.enqueue(
      {.key = {"shop", "reminder"}, .topic = "mail", .priority = 100, .due_at = now + 3s});
  // It came too late: nobody wants this code any more.
  inbox.enqueue({.key = {"shop", "login code"}, .topic = "mail", .expires_at = now - 1s});

  std::counting_semaphore<> handled(0);
  Handlers handlers;
  handlers.on("mail", [&](const ClaimedMessage& claimed, HandlerContext&) {
    const bool waited = claimed.message.due_at.has_value() && SystemClock::current() >= now + 3s;
    std::cout << claimed.message.key.message_id << (waited ? ", three seconds later" : "") << '\n';
    handled.release();
  });
  // One worker, so that the order shows. With several, messages begin in this order.
  Dispatcher dispatcher(store->inbox(), handlers, {.workers = 1});
  dispatcher.start();
  for (int mail = 0; mail < 4; ++mail) {
    if (!handled.try_acquire_for(30s)) return EXIT_FAILURE;
  }
  dispatcher.stop();

  // An expired message is never handed out. It is put among the dead by the reaper, which a
  // dispatcher runs every 30 seconds; here we do not wait for that.
  store->inbox().reap();
  const auto code = store->inbox().find({"shop", "login code"});
  std::cout << code->key.message_id << ": " << to_string(code->status) << ", "
            << code->history.last_error.value_or("") << '\n';

  // For a timer of yours. Nothing here is old enough.
  const CleanupRequest old{.done_retention = std::chrono::days{30},
                           .dead_retention = std::chrono::days{90}};
  while (store->inbox_operator().cleanup(old).total() == old.limit) {
  }
}
