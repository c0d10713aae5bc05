// Rules for topics that stand in the store. Every worker goes by them, in whatever process, and an
// operator changes them while the workers run: fewer attempts, so many at once, a pause.
//
// usage: example_topic_policies [STORE-URL]

#include <atomic>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>

#include "example_store.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/topic_policy.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

/// A field of a form: an empty one changes nothing, "-" clears the value.
FieldChange<int> change_of(const std::string& field) {
  if (field.empty()) return {};
  if (field == "-") return std::nullopt;
  return std::stoi(field);
}

/// Nobody is handed messages of these topics, whatever process asks.
void pause(PolicyStore& store, const TopicPattern& topics, const std::string& why) {
  store.update(QueueKind::inbox, topics, {.paused = true}, {.reason = why});
}
void resume(PolicyStore& store, const TopicPattern& topics) {
  store.update(QueueKind::inbox, topics, {.paused = false});
}

void print_rules(PolicyStore& store) {
  const TopicPolicies policies = store.policies(QueueKind::inbox);
  for (const TopicRule& rule : policies.rules()) {
    // What the rule leaves open is inherited from the wider one.
    const std::string& pattern = rule.pattern.str();
    std::cout << "  " << pattern << ": attempts " << policies.for_topic(pattern).retry.max_attempts
              << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  PolicyStore& policies = store->policies();
  const TopicPolicy mail = policies.update(
      QueueKind::inbox, "mail.*",
      {.max_attempts = 3,
       .delays = {10ms, 20ms},
       .limits = {.max_concurrency = 2, .rate = RateLimit{.count = 100, .per = 1s}}});
  std::cout << "mail.*: " << mail.limits.max_concurrency.value() << " at once\n";
  policies.update(QueueKind::inbox, "mail.advert", {.max_attempts = change_of("1")});
  print_rules(policies);

  // The worker knows nothing of these rules.
  std::atomic<bool> is_down = true;
  std::atomic<int> tries = 0;
  Handlers handlers;
  handlers.on("mail.*", [&](const ClaimedMessage&, HandlerContext&) {
    ++tries;
    if (is_down) throw std::runtime_error("the mail server is down");
  });
  Dispatcher worker(store->inbox(), handlers);
  worker.start();
  const auto finish = [&] {
    const bool is_idle = worker.wait_until_idle({.timeout = 30s, .due_within = 1s});
    if (!is_idle) throw std::runtime_error("too slow");
  };

  Inbox inbox(*store);
  inbox.enqueue({.key = {"shop", "1"}, .topic = "mail.receipt"});
  finish();
  inbox.enqueue({.key = {"shop", "2"}, .topic = "mail.advert"});
  finish();
  std::cout << "tried " << tries << " times\n";

  // Until the mail server is back nothing is tried, by nobody.
  pause(policies, "mail.*", "the mail server is down");
  inbox.enqueue({.key = {"shop", "3"}, .topic = "mail.receipt"});
  finish();
  const MessageRecord record = store->inbox().find({"shop", "3"}).value();
  std::cout << record.key << ": " << to_string(record.state) << ", for the end of a "
            << to_string(record.waiting_for.value()) << '\n';

  is_down = false;
  resume(policies, "mail.*");
  policies.update(QueueKind::inbox, "mail.advert", {.max_attempts = change_of("-")});
  finish();
  std::cout << "tried " << tries << " times\n";
  print_rules(policies);  // A rule that says nothing any more is gone.
}
