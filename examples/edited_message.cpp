// An operator who corrects a dead message, and the traces that it leaves.
//
// usage: example_edited_message [STORE-URL]

#include <algorithm>
#include <iostream>
#include <vector>

#include "example_store.hpp"
#include "oncebox/audit_trail.hpp"

using namespace oncebox;

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  const MessageKey key{"shop", "42"};
  store->inbox().enqueue({.key = key, .topic = "order.paid", .payload = "amount: -1"});
  store->inbox().mark({.key = key, .as = MarkAs::dead, .error = "the amount is negative"});

  QueueOperator& operations = store->inbox_operator();
  const std::vector<EditedMessage> edits{{.key = key, .payload = "amount: 1"}};
  const ReviveOptions why{.reason = "the sign was wrong", .actor = "alice"};
  const AuditEntry entry{
      .actor = why.actor, .action = AuditAction::revive_edited, .reason = why.reason};
  const auto outcomes = audited(
      store->audit(), entry, [&] { return operations.revive_edited(edits, why); },
      [](const std::vector<ReviveOutcome>& all) {
        return static_cast<std::size_t>(std::ranges::count(all, ReviveOutcome::revived));
      });
  std::cout << outcomes.size() << " edited\n";

  for (const ClaimedMessage& claimed : store->inbox().claim({.owner = OwnerToken::generate()})) {
    std::cout << "to be handled: " << claimed.message.payload.bytes() << '\n';
  }
  for (const PastContent& past : operations.past_contents(key)) {
    std::cout << "was: " << past.payload.bytes() << ", until " << past.replaced_by
              << " replaced it: " << past.reason << '\n';
  }
  for (const AuditRecord& record : store->audit().list().records) {
    std::cout << record.entry.actor << ": " << to_string(record.entry.action) << ", "
              << record.result->changed << " changed\n";
  }
}
