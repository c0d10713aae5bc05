// Bookings of three accounts: strictly in order within an account, the accounts side by side, also
// when one booking fails and has to be tried again.
//
// usage: example_ordered_partitions [STORE-URL]

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <string>

#include "example_store.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"

namespace {

using namespace oncebox;
using namespace std::chrono_literals;

constexpr int kBookings = 5;

/// What the handlers saw, by account.
class Ledger {
 public:
  void write(const std::string& account, const std::string& entry) {
    const std::lock_guard lock(mutex_);
    entries_[account] += ' ' + entry;
    if (entry == std::to_string(kBookings)) ++finished_;
    changed_.notify_all();
  }
  bool wait_until_all_have_begun() {
    return wait([this] { return entries_.size() == 3; });
  }
  bool wait_until_all_have_finished() {
    return wait([this] { return finished_ == 3; });
  }
  void print() const {
    for (const auto& [account, entries] : entries_) std::cout << account << ':' << entries << '\n';
  }

 private:
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 30s, condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> entries_;
  int finished_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  Inbox inbox(*store);
  for (int number = 1; number <= kBookings; ++number) {
    for (const std::string account : {"ann", "bob", "cy"}) {
      inbox.enqueue({.key = {"bank", account + "-" + std::to_string(number)},
                     .topic = "booking",
                     .payload = std::to_string(number),
                     .partition_key = account});
    }
  }

  Ledger ledger;
  Handlers handlers;
  handlers.on("booking", [&](const ClaimedMessage& claimed, HandlerContext&) {
    const std::string& account = claimed.message.partition_key->str();
    const std::string& number = claimed.message.payload.bytes();
    const bool fails = account == "bob" && number == "2" && claimed.history.attempt == 0;
    ledger.write(account, fails ? "(2 failed)" : number);
    if (fails) throw std::runtime_error("the ledger is locked");
    // Nobody goes on before all three accounts are at work: they do not wait for each other.
    if (number == "1") ledger.wait_until_all_have_begun();
  });

  Dispatcher dispatcher(
      store->inbox(), handlers,
      {.workers = 3, .retries = RetryPolicies({.backoff = FixedDelay{50ms}, .max_attempts = 5})});
  dispatcher.start();
  const bool finished = ledger.wait_until_all_have_finished();
  dispatcher.stop();
  ledger.print();
  return finished ? EXIT_SUCCESS : EXIT_FAILURE;
}
