// What is promised, and what is not, one step after the other: acceptance, execution, one holder,
// effects, and what a store keeps.

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>

#include "example_database.hpp"
#include "example_folder.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/sqlite/transaction.hpp"
#include "oncebox/testing/fake_clock.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

const Message kOrder{.key = {.source = "shop", .message_id = "order-1"}, .topic = "order.paid"};

}  // namespace

int main() {
  const ExampleFolder folder;
  const std::string path = folder / "shop.db";
  testing::FakeClock clock;
  sqlite::SqliteStore store({.path = path}, clock);
  const ExampleConnection database(path);
  (*database).execute("CREATE TABLE parcel (name TEXT)");
  const auto parcels = [&] { return (*database).number("SELECT count(*) FROM parcel"); };
  QueueStore& inbox = store.inbox();

  // Acceptance is deduplicated.
  std::cout << "sent:            " << to_string(inbox.enqueue(kOrder).status) << '\n';
  std::cout << "sent again:      " << to_string(inbox.enqueue(kOrder).status) << '\n';

  // Execution is at least once: the first worker stands still, its lease ends, a second one comes.
  const ClaimRequest request{.owner = OwnerToken::generate(), .lease = 30s};
  const ClaimedMessage first = inbox.claim(request).at(0);
  clock.advance(31s);
  const ClaimedMessage second = inbox.claim({.owner = OwnerToken::generate()}).at(0);
  std::cout << "handed out:      " << second.history.deliveries << " times\n";

  // Only the holder's verdict counts, and only the holder's effects, if they go with the verdict.
  const auto pack = [](Transaction& transaction) {
    ExampleDatabase(sqlite::database_of(transaction)).execute("INSERT INTO parcel VALUES ('1')");
  };
  TransactionalQueue& transactions = *inbox.transactional();
  SettleOutcome outcome = transactions.acknowledge_with(delivery_of(first), pack);
  std::cout << "first worker:    " << to_string(outcome.status) << ", parcels: " << parcels()
            << '\n';
  outcome = transactions.acknowledge_with(delivery_of(second), pack);
  std::cout << "second worker:   " << to_string(outcome.status) << ", parcels: " << parcels()
            << '\n';
  std::cout << "sent again:      " << to_string(inbox.enqueue(kOrder).status) << '\n';

  // A store in memory ends with its process, and so does what it knew.
  for (const char* process : {"one process:    ", "the next one:   "}) {
    const auto memory = open_store("memory:");
    std::cout << process << " " << to_string(memory->inbox().enqueue(kOrder).status) << '\n';
  }
}
