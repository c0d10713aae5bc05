// One process, a database for each tenant, and tenants that come and go.

#include <iostream>
#include <vector>

#include "oncebox/fleet/inbox_router.hpp"
#include "oncebox/fleet/outbox_router.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/open_store.hpp"

using namespace oncebox;

int main() {
  // Where a service would ask its control database.
  std::vector<StoreLocation> tenants{{"acme", "memory:"}, {"zenith", "memory:"}};

  StoreSet stores([&] { return tenants; },
                  [](const StoreLocation& location) { return open_store(location.url); });
  InboxRouter inboxes(stores);
  OutboxRouter outboxes(stores);

  const auto take_in = [&](const std::string& tenant, const char* id) {
    try {
      const auto outcome = inboxes.route(tenant)->enqueue(
          {.key = {"stripe", id}, .topic = "payment.received", .payload = "{}"});
      std::cout << tenant << " " << id << ": " << to_string(outcome.status) << "\n";
    } catch (const Error& error) {
      std::cout << tenant << " " << id << ": " << error.what() << "\n";
    }
  };
  take_in("acme", "evt_1");
  take_in("acme", "evt_1");
  take_in("zenith", "evt_1");
  take_in("nova", "evt_1");

  outboxes.route("acme")->enqueue({.topic = "receipt.due", .payload = "{}"});
  for (const char* tenant : {"acme", "zenith"}) {
    std::cout << tenant << " sends " << stores.find(tenant)->store().outbox_operator().count({})
              << "\n";
  }

  tenants = {{"acme", "memory:"}, {"nova", "memory:"}};
  stores.refresh();  // else within five minutes
  take_in("acme", "evt_1");
  take_in("nova", "evt_1");
  take_in("zenith", "evt_2");
}
