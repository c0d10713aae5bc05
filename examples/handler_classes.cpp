// Handlers as classes, which hold what they need: one by one, in batches, and without a thread.
// One of them cannot work now, and says so; another one says what kind of failure it has met.

#include <chrono>
#include <iostream>
#include <memory>
#include <semaphore>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

/// What went wrong at a bank. The word is kept with the attempt, and logged.
class BankError final : public std::runtime_error, public NamesErrorKind {
 public:
  using std::runtime_error::runtime_error;
  [[nodiscard]] std::string error_kind() const override { return "bank"; }
};

/// A service outside that is closed now and then.
class Bank {
 public:
  void close_once() { closed_calls_ = 1; }
  [[nodiscard]] bool is_closed() { return closed_calls_ > 0 && closed_calls_-- > 0; }
  void pay(const std::string& account) const {
    if (account == "eve") throw BankError("the account is blocked");
    std::cout << "paid " << account << '\n';
  }

 private:
  int closed_calls_ = 0;
};

class PayOut final : public Handler {
 public:
  explicit PayOut(Bank& bank) : bank_(bank) {}

  void handle(const ClaimedMessage& claimed, HandlerContext&) override {
    // Nothing was tried, so nothing has failed: this counts no attempt.
    if (bank_.is_closed()) throw NotNow(10ms, "the bank is closed");
    bank_.pay(claimed.message.payload.bytes());
  }

 private:
  Bank& bank_;
};

class CountClicks final : public BatchHandler {
 public:
  void handle(std::span<BatchMessage> batch) override { clicks_ += batch.size(); }
  [[nodiscard]] std::size_t clicks() const { return clicks_; }

 private:
  std::size_t clicks_ = 0;
};

/// Begins what ends on another thread.
class Resize final : public AsyncHandler {
 public:
  void start(const ClaimedMessage&, Completion completion) override {
    worker_ = std::jthread([completion = std::move(completion)]() mutable { completion.done(); });
  }

 private:
  std::jthread worker_;
};

}  // namespace

int main() {
  memory::MemoryStore store;
  Inbox inbox(store);
  for (const char* account : {"ann", "eve"}) {
    inbox.enqueue({.key = {"shop", account}, .topic = "pay.out", .payload = account});
  }
  for (int click = 1; click <= 5; ++click) {
    inbox.enqueue({.key = {"web", std::to_string(click)}, .topic = "click"});
  }
  inbox.enqueue({.key = {"web", "photo"}, .topic = "image.uploaded"});
  inbox.enqueue({.key = {"web", "letter"}, .topic = "print"});

  Bank bank;
  bank.close_once();
  const HandlerOptions one_at_a_time{.max_concurrency = 1, .retry = RetryPolicy{.max_attempts = 1}};
  const auto clicks = std::make_shared<CountClicks>();
  Handlers handlers;
  handlers.on("pay.*", std::make_shared<PayOut>(bank), one_at_a_time);
  handlers.on_batch("click", clicks, {.max_messages = 100});
  handlers.on_async("image.*", std::make_shared<Resize>());

  // Another program prints: what nobody here handles is left to it.
  Dispatcher dispatcher(store.inbox(), handlers,
                        {.workers = 1, .no_handler = NoHandlerPolicy::ignore});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = 30s, .due_within = 1s})) return 1;
  dispatcher.stop();

  std::cout << clicks->clicks() << " clicks\n";
  for (const MessageKey& key : {MessageKey{"shop", "ann"}, MessageKey{"shop", "eve"},
                                MessageKey{"web", "photo"}, MessageKey{"web", "letter"}}) {
    const MessageRecord record = store.inbox().find(key).value();
    std::cout << key << ": " << to_string(record.state) << ", attempts " << record.history.attempt;
    for (const Attempt& attempt : record.attempts) {
      if (!attempt.error_kind.empty()) std::cout << ", " << attempt.error_kind;
    }
    std::cout << '\n';
  }
}
