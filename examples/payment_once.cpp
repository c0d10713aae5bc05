// Payments that count once: the account, the end of the delivery and the receipt that is to be sent
// are committed together, or not at all.

#include <chrono>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "example_database.hpp"
#include "example_folder.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/sqlite/transaction.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

struct Payment {
  std::string account;
  std::string cents;
};

Payment read_payment(const Payload& payload) {
  std::istringstream text(payload.bytes());
  Payment payment;
  if (!(text >> payment.account >> payment.cents)) throw PermanentFailure("this is no payment");
  return payment;
}

std::int64_t balance(const ExampleDatabase& database, const std::string& account) {
  return database.number("SELECT cents FROM account WHERE name = ?1", {account});
}

void book(const ExampleDatabase& database, const Payment& payment) {
  std::cout << payment.account << " has " << balance(database, payment.account) << ", gets "
            << payment.cents << '\n';
  database.execute(
      "INSERT INTO account (name, cents) VALUES (?1, CAST(?2 AS INTEGER))"
      " ON CONFLICT (name) DO UPDATE SET cents = account.cents + excluded.cents",
      {payment.account, payment.cents});
}

}  // namespace

int main() {
  const ExampleFolder folder;
  const std::string path = folder / "bank.db";
  const auto store = open_store("sqlite:" + path);
  const ExampleConnection bank(path);
  (*bank).execute("CREATE TABLE account (name TEXT PRIMARY KEY, cents INTEGER NOT NULL)");

  Inbox inbox(*store);
  const auto receive = [&](const std::string& id, const std::string& payment) {
    const EnqueueOutcome outcome = inbox.enqueue(
        {.key = {.source = "bank", .message_id = id}, .topic = "payment", .payload = payment});
    std::cout << id << ": " << to_string(outcome.status) << '\n';
  };
  receive("pay-1", "ann 4200");
  receive("pay-1", "ann 4200");
  receive("pay-2", "bob 100");
  receive("pay-3", "ann 50");

  Outbox outbox(*store, {.source = "bank"});
  Handlers handlers;
  handlers.on("payment", [&](const ClaimedMessage& claimed, Transaction& transaction,
                             HandlerContext& context) {
    const Payment payment = read_payment(claimed.message.payload);
    book(ExampleDatabase(sqlite::database_of(transaction)), payment);
    outbox.enqueue({.topic = "receipt.send",
                    .payload = claimed.message.payload,
                    .id = derived_id(context, "receipt")},
                   transaction, context);
    // Everything is written by now. When this throws, nothing of it stays.
    const bool first_time = claimed.history.attempt == 0;
    if (payment.account == "bob" && first_time) throw RetryAfter(20ms, "the ledger is closed");
  });

  Dispatcher dispatcher(store->inbox(), handlers, {.workers = 1});
  dispatcher.start();
  const bool all_booked = dispatcher.wait_until_idle({.timeout = 30s, .due_within = 1min});
  dispatcher.stop();
  if (!all_booked) throw std::runtime_error("this takes too long");

  std::cout << "ann has " << balance(*bank, "ann") << ", bob has " << balance(*bank, "bob") << '\n'
            << "receipts to send: " << store->outbox_operator().count({}) << '\n';
  receive("pay-2", "bob 100");
}
