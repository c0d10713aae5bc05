#pragma once

#include "oncebox/fleet/store_router.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox {

struct InboxRouterOptions {
  Routing routing = Routing::by_name;
  InboxOptions inbox = {};  ///< of every inbox, but for the name, which is that of its store
};

/// Leads a routing key to the inbox of its store: `inboxes.route("acme")->enqueue(…)`.
class InboxRouter final : public StoreRouter<Inbox> {
 public:
  /// Everything is borrowed and must outlive the router and its inboxes.
  explicit InboxRouter(StoreSet& stores, const InboxRouterOptions& options = {},
                       const SurroundingsOfStores& surroundings = {});
};

}  // namespace oncebox
