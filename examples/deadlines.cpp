// Calls that do not wait for ever: a deadline, a stop token, and what is certain when they end a
// call.

#include <chrono>
#include <iostream>
#include <stop_token>
#include <string>

#include "example_database.hpp"
#include "example_folder.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/open_store.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

const Message kOrder{.key = {.source = "shop", .message_id = "order-1"}, .topic = "order.paid"};

// What a sender is told who does not wait for ever.
std::string take(Inbox& inbox, Duration time, const std::stop_token& stopping) {
  try {
    const EnqueueOutcome outcome = inbox.enqueue(kOrder, CallOptions::within(time, stopping));
    return "stored: " + std::string(to_string(outcome.status));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timeout) return "not stored in time, and not later: try again";
    if (error.code() == ErrorCode::cancelled) return "not stored, because we stop: try another one";
    if (error.code() == ErrorCode::outcome_unknown) return "perhaps stored: try again";
    throw;
  }
}

}  // namespace

int main() {
  const ExampleFolder folder;
  const std::string path = folder / "shop.db";
  const auto store = open_store("sqlite:" + path);
  Inbox inbox(*store);
  std::stop_source stopping;

  // Another program has the write lock of the file, and takes its time.
  const ExampleConnection another(path);
  (*another).execute("BEGIN IMMEDIATE");
  std::cout << take(inbox, 50ms, stopping.get_token()) << '\n';
  (*another).execute("COMMIT");
  std::cout << "found: " << inbox.queue().find(kOrder.key).has_value() << '\n';

  std::cout << take(inbox, 60s, stopping.get_token()) << '\n';

  stopping.request_stop();
  std::cout << take(inbox, 60s, stopping.get_token()) << '\n';
}
