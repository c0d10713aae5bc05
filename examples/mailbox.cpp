// Work of one process that must not overlap: a bounded mailbox, what it does when it is full, and
// an orderly stop. In front of it, a receiver that recognises what was posted twice.

#include <future>
#include <iostream>
#include <latch>
#include <stdexcept>
#include <string>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/receive/inbox_processor.hpp"
#include "oncebox/receive/mailbox.hpp"

namespace {

using namespace oncebox;

void print_labels() {
  std::latch printing(1);
  std::latch paper(1);
  Mailbox<std::string> mailbox(
      [&](const std::string& label, const std::stop_token&) {
        if (label == "label 1") {
          printing.count_down();
          paper.wait();
        }
        if (label == "label 2") throw std::runtime_error("paper jam");
        std::cout << "printed " << label << '\n';
      },
      {.capacity = 2, .when_full = WhenFull::drop_oldest},
      {.on_dropped = [](std::string&& label, DropReason) {
        std::cout << "dropped " << label << '\n';
      }});
  mailbox.post("label 1");
  printing.wait();
  for (const char* label : {"label 2", "label 3", "label 4"}) mailbox.post(label);
  mailbox.post("label 2");
  paper.count_down();
  mailbox.stop();  // finishes what waits
  const MailboxCounters counters = mailbox.counters();
  std::cout << counters.handled << " handled, " << counters.failed << " failed, "
            << counters.dropped << " dropped\n";
}

void serialise_a_receiver() {
  memory::MemoryStore store;
  int stock = 10;  // needs no lock: one message is handled at a time
  InboxProcessor<int, int> processor(
      IdempotentReceiver<int, int>::over(store.keys(), [&](int taken) { return stock -= taken; })
          .on_duplicate(DuplicatePolicy::replay_completed)
          .build());
  MailboxProcessor<int, int> mailbox(processor, {.capacity = 100, .when_full = WhenFull::wait});
  auto first = mailbox.post({{"idempotencyKey", "pick-1"}}, 3);
  auto again = mailbox.post({{"idempotencyKey", "pick-1"}}, 3);
  auto other = mailbox.post({{"idempotencyKey", "pick-2"}}, 2);
  for (auto* answer : {&first, &again, &other}) {
    const Received<int> received = answer->get();
    std::cout << received.key.text() << ' ' << to_string(received.status) << ", "
              << received.result.value() << " left\n";
  }
}

}  // namespace

int main() {
  print_labels();
  serialise_a_receiver();
}
