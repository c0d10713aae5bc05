// What an operator's tool does with messages that are alive: looks at them page by page, finds one
// by its id, sees who works, ends what nobody wants any more, and leaves a trace of it.
//
// usage: example_operator [STORE-URL]

#include <chrono>
#include <cstddef>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include "example_store.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/error.hpp"
#include "oncebox/operate/message_actions.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

void print_pages(QueueOperator& queue) {
  std::optional<Cursor> place;
  do {
    const MessagePage page = queue.list({.after = place, .limit = 3});
    for (const MessageRecord& record : page.records) {
      std::cout << "  " << record.key.message_id << ' ' << to_string(record.state) << '\n';
    }
    if (page.next) std::cout << "  …\n";
    place = page.next;
  } while (place);
}

/// A change by an operator, between the two entries that tell of it.
template <class Change>
void change(AuditTrail& trail, const AuditEntry& entry, Change change) {
  try {
    audited(trail, entry, change, [](std::size_t changed) { return changed; });
  } catch (const Error& error) {
    std::cout << to_string(entry.action) << ": " << to_string(error.code()) << '\n';
  }
}

void print_trail(AuditTrail& trail) {
  for (const AuditRecord& record : trail.list({.filter = {.actor = "alice"}}).records) {
    const AuditResult result = record.result.value_or(AuditResult{.status = AuditStatus::unknown});
    std::cout << "  " << record.entry.actor << ": " << to_string(record.entry.action) << ' '
              << record.entry.subject << ", " << to_string(result.status) << ", " << result.changed
              << " changed: " << record.entry.reason << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  QueueStore& inbox = store->inbox();
  QueueOperator& operations = store->inbox_operator();

  const TimePoint tonight = SystemClock::current() + 8h;
  inbox.enqueue({.key = {"shop", "receipt"}, .topic = "mail.receipt"});
  for (const char* id : {"advert-1", "advert-2", "reminder"}) {
    inbox.enqueue({.key = {"shop", id}, .topic = std::string("mail.") + id, .due_at = tonight});
  }
  const ClaimResult held = inbox.claim({.owner = OwnerToken::generate(), .worker = "mailer-1"});
  std::cout << "messages:\n";
  print_pages(operations);
  for (const WorkerRecord& worker : operations.workers()) {
    std::cout << worker.name << " has " << worker.leases << '\n';
  }

  AuditTrail& trail = store->audit();
  const MessageFilter adverts{.topic = "mail.advert*"};
  change(trail,
         {.actor = "alice",
          .action = AuditAction::cancel,
          .subject = "mail.advert*",
          .reason = "the offer has ended"},
         [&] { return act_on_all(operations, adverts, Cancel{}, 1'000, {"the offer has ended"}); });

  // The id is all that a customer knows.
  const auto found = find_by_id(operations, "reminder");
  if (const auto* reminder = std::get_if<MessageRecord>(&found)) {
    change(trail,
           {.actor = "alice",
            .action = AuditAction::run_now,
            .subject = "reminder",
            .reason = "the customer asked for it"},
           [&] {
             const auto outcomes = operations.act({&reminder->key, 1}, RunNow{});
             return outcomes.front() == ActOutcome::changed ? std::size_t{1} : 0;
           });
  }
  // What fails is in the trail, too.
  change(trail,
         {.actor = "alice",
          .action = AuditAction::purge,
          .subject = "everything",
          .reason = "a mistake"},
         [&] { return operations.act_matching({}, Purge{}, 0); });

  std::cout << "afterwards:\n";
  print_pages(operations);
  std::cout << "the trail:\n";
  print_trail(trail);
}
