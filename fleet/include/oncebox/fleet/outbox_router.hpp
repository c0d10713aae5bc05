#pragma once

#include "oncebox/fleet/store_router.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox {

struct OutboxRouterOptions {
  Routing routing = Routing::by_name;
  OutboxOptions outbox = {};  ///< of every outbox, but for the name, which is that of its store
};

/// Leads a routing key to the outbox of its store: `outboxes.route("acme")->enqueue(…)`. Beside an
/// `InboxRouter` with the same routing it finds the same store for the same key.
class OutboxRouter final : public StoreRouter<Outbox> {
 public:
  /// Everything is borrowed and must outlive the router and its outboxes.
  explicit OutboxRouter(StoreSet& stores, const OutboxRouterOptions& options = {},
                        const SurroundingsOfStores& surroundings = {});
};

}  // namespace oncebox
