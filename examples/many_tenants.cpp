// One pool of workers for the databases of all tenants: none of them starves another.

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <span>

#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/open_store.hpp"

using namespace oncebox;

/// Whoever has least in flight is next.
class LeastBusy final : public StoreSelection {
 public:
  std::optional<std::size_t> choose(std::span<const StoreCandidate> candidates) override {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!candidates[i].is_free) continue;
      if (!best || candidates[i].in_flight < candidates[*best].in_flight) best = i;
    }
    return best;
  }
};

int main() {
  using namespace std::chrono_literals;

  StoreSet stores({{"acme", "memory:"}, {"zenith", "memory:"}},
                  [](const StoreLocation& location) { return open_store(location.url); });

  // A tenant with much to do, and one with little.
  for (int i = 1; i <= 500; ++i) {
    stores.find("acme")->store().inbox().enqueue(
        {.key = {"import", std::to_string(i)}, .topic = "row.imported"});
  }
  stores.find("zenith")->store().inbox().enqueue({.key = {"shop", "1"}, .topic = "order.created"});

  int rows = 0;
  int rows_before_order = 0;
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage&, HandlerContext& context) {
    if (context.store() == "acme") {
      ++rows;
    } else {
      rows_before_order = rows;
    }
  });

  SetDispatcher dispatcher(stores, handlers, weighted_fair(), {.dispatcher = {.workers = 1}});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = 30s})) return 1;
  dispatcher.stop();

  std::cout << rows << " rows imported\n";
  std::cout << (rows_before_order < 250 ? "the order did not wait for them" : "the order waited")
            << "\n";

  // The same with a strategy of one's own.
  Handlers printing;
  printing.on("*", [](const ClaimedMessage&, HandlerContext&) { std::cout << "one more order\n"; });
  stores.find("zenith")->store().inbox().enqueue({.key = {"shop", "2"}, .topic = "order.created"});
  SetDispatcher own(stores, printing, std::make_unique<LeastBusy>());
  own.start();
  if (!own.wait_until_idle({.timeout = 30s})) return 1;
}
