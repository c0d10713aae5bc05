// How to test a handler that works in a transaction, in memory: the store takes back what it sent
// and its acknowledgement, and `on_commit` stands for the rows that it writes on a database.

#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/memory/transaction.hpp"
#include "oncebox/outbox.hpp"

namespace {

using namespace oncebox;

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
  std::cout << what << '\n';
}

/// Where the code under test keeps its rows; in production, a table beside the store's own.
class Accounts {
 public:
  virtual ~Accounts() = default;
  virtual void book(Transaction& transaction, const std::string& account, int cents) = 0;
};

// The code under test.
class BookPayment final : public TransactionalHandler {
 public:
  BookPayment(Accounts& accounts, Outbox& outbox) : accounts_(accounts), outbox_(outbox) {}

  void handle(const ClaimedMessage& claimed, Transaction& transaction,
              HandlerContext& context) override {
    const int cents = std::stoi(claimed.message.payload.bytes());
    accounts_.book(transaction, "ann", cents);
    outbox_.enqueue({.topic = "receipt.send",
                     .payload = claimed.message.payload,
                     .id = derived_id(context, "receipt")},
                    transaction, context);
    if (cents < 0) throw PermanentFailure("a negative payment");
  }

 private:
  Accounts& accounts_;
  Outbox& outbox_;
};

// Takes effect with the commit, as rows do.
class FakeAccounts final : public Accounts {
 public:
  void book(Transaction& transaction, const std::string& account, int cents) override {
    memory::on_commit(transaction, [this, account, cents] { cents_[account] += cents; });
  }
  int cents_of(const std::string& account) { return cents_[account]; }

 private:
  std::map<std::string, int> cents_;
};

class Bank {
 public:
  SettleOutcome pay(const std::string& id, const std::string& cents) {
    QueueStore& inbox = store.inbox();
    inbox.enqueue({.key = {"bank", id}, .topic = "payment", .payload = cents});
    const ClaimResult claimed = inbox.claim({.owner = OwnerToken::generate()});
    HandlerContext context(claimed.front(), {});
    return inbox.transactional()->acknowledge_with(
        delivery_of(claimed.front()),
        [&](Transaction& transaction) { handler.handle(claimed.front(), transaction, context); });
  }
  Status status_of(const std::string& id) { return store.inbox().find({"bank", id})->status; }
  std::size_t receipts() { return store.outbox_operator().count({}); }

  memory::MemoryStore store;
  Outbox outbox{store, {.source = "bank"}};
  FakeAccounts accounts;
  BookPayment handler{accounts, outbox};
};

void test_that_all_of_it_happens() {
  Bank bank;
  expect(bank.pay("1", "4200") == SettleStatus::settled, "the payment is settled");
  expect(bank.accounts.cents_of("ann") == 4200, "ann has the money");
  expect(bank.receipts() == 1, "a receipt is on its way");
  expect(bank.status_of("1") == Status::done, "and the payment is done");
}

void test_that_a_failure_leaves_nothing() {
  Bank bank;
  try {
    (void)bank.pay("1", "-1");
  } catch (const PermanentFailure& failure) {
    std::cout << "it fails: " << failure.what() << '\n';
  }
  expect(bank.accounts.cents_of("ann") == 0, "nothing is booked");
  expect(bank.receipts() == 0, "no receipt is sent");
  expect(bank.status_of("1") == Status::processing, "and the payment is still to be handled");
}

// For code that enqueues in a transaction of its own: one that the test commits.
void test_code_with_a_transaction_of_its_own() {
  Bank bank;
  {
    memory::CallerTransaction given_up(bank.store);
    bank.accounts.book(given_up, "ann", 100);
    bank.outbox.enqueue({.topic = "receipt.send", .payload = "100"}, given_up);
  }
  expect(bank.accounts.cents_of("ann") == 0 && bank.receipts() == 0, "rolled back, it never was");
  memory::CallerTransaction transaction(bank.store);
  bank.accounts.book(transaction, "ann", 100);
  bank.outbox.enqueue({.topic = "receipt.send", .payload = "100"}, transaction);
  expect(bank.receipts() == 0, "nobody sees it before the commit");
  transaction.commit();
  expect(bank.receipts() == 1 && bank.accounts.cents_of("ann") == 100, "then it is there");
}

}  // namespace

int main() {
  test_that_all_of_it_happens();
  test_that_a_failure_leaves_nothing();
  test_code_with_a_transaction_of_its_own();
}
