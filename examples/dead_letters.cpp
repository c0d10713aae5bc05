// What an operator does when messages die: sees the kinds of errors, brings one kind back at a
// rate, removes another, and is told when there is a new one.

#include <chrono>
#include <iostream>
#include <string>

#include "example_store.hpp"
#include "oncebox/operate/dead_notices.hpp"
#include "oncebox/operate/dead_recovery.hpp"
#include "oncebox/operate/housekeeping.hpp"
#include "oncebox/operate/watchdog.hpp"

using namespace oncebox;

namespace {

class Pager final : public DeadNoticeSink {
 public:
  void on_notice(const DeadNotice& notice) noexcept override {
    std::cout << "notice: " << notice.group.id.topic->str() << ", " << notice.group.error << "\n";
  }
};

void fail(QueueStore& inbox, const std::string& id, const std::string& error) {
  inbox.enqueue(Message{.key = {"shop", id}, .topic = "mail"});
  inbox.mark(Mark{.key = {"shop", id}, .as = MarkAs::dead, .error = error});
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  QueueOperator& queue = store->inbox_operator();

  Housekeeping housekeeping({.dead_retention = std::chrono::days{90}});
  housekeeping.add({.name = "shop",
                    .inbox = {store->inbox(), store->inbox_operator()},
                    .outbox = {store->outbox(), store->outbox_operator()},
                    .deliveries = {store->deliveries(), store->deliveries_operator()},
                    .keys = store->keys(),
                    .audit = store->audit()});

  for (int i = 0; i < 3; ++i) {
    fail(store->inbox(), std::to_string(i), "timeout after " + std::to_string(i) + " s");
  }
  fail(store->inbox(), "spam", "no such address");

  for (const DeadGroup& group : group_dead(queue).groups) {
    std::cout << group.count << " of " << group.id.topic->str() << ": " << group.error << "\n";
  }

  const DeadGroups found = group_dead(queue);
  const DeadQuery timeouts{.group = found.groups.front().id};
  const RevivalResult revived =
      revive_dead(queue, timeouts, {.reason = "the host is back"}, {.per_second = 0.5});
  std::cout << "revived " << revived.count << ", the last in " << revived.lasts.count() / 1000
            << " s\n";
  const std::size_t purged = purge_dead(queue, {.filter = {.error_contains = "no such"}});
  std::cout << "purged " << purged << "\n";

  // From here on: what died before is gone, so nothing is told.
  Pager pager;
  DeadNotices notices({.cooldown = std::chrono::minutes{15}}, pager);
  Watchdog watchdog({.interval = std::chrono::seconds{30}}, {&notices});
  watchdog.add({.name = "shop", .store = *store});

  const WatchdogReport report = look_once("shop", *store);
  std::cout << "health: " << to_string(report.status) << "\n";
}
