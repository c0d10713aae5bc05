#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/fleet/store_set.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox {

enum class Routing {
  by_name,  ///< the key is the name of a store: a tenant has a database of its own
  by_hash,  ///< the key chooses one of all stores, the same one for ever: many share some databases
};

struct InboxRouterOptions {
  Routing routing = Routing::by_name;
  InboxOptions inbox = {};  ///< of every inbox, but for the name, which is that of its store
};

/// Leads a routing key, as a rule a tenant, to the inbox of its store. Inboxes are made once and
/// kept for as long as their stores are in the set.
///
/// **By hash.** Every store of the set counts, also one that is down: its keys wait for it. When a
/// store is added to N others, about 1 of N + 1 keys moves, and only to the new one; what had been
/// stored elsewhere under such a key is not recognised any more. Until a discovery has succeeded
/// every key is `unavailable`, as it cannot be told where it belongs.
///
/// **Threads.** Every call but the destructor may be made from any thread at any time.
class InboxRouter {
 public:
  /// Everything is borrowed and must outlive the router and its inboxes.
  explicit InboxRouter(StoreSet& stores, const InboxRouterOptions& options = {},
                       const SurroundingsOfStores& surroundings = {});
  /// Waits for what the inboxes have taken, also those of stores that have left the set.
  ~InboxRouter();
  InboxRouter(const InboxRouter&) = delete;
  InboxRouter& operator=(const InboxRouter&) = delete;

  /// Throws `invalid_argument` for a blank key, `not_found` for one that leads nowhere, and
  /// `unavailable` while its store is down or not yet discovered. The store stays open while
  /// its inbox is held; a caller that keeps one for long may write to a store that has left the
  /// set.
  [[nodiscard]] std::shared_ptr<Inbox> route(std::string_view key);
  [[nodiscard]] std::shared_ptr<Inbox> route(const Uuid& key) { return route(key.to_string()); }
  template <std::integral Key>
  [[nodiscard]] std::shared_ptr<Inbox> route(Key key) {
    return route(std::string_view(std::to_string(key)));
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Which of the names a key belongs to: the one that, hashed together with the key, comes first
/// (rendezvous hashing). The answer depends on nothing else, and never changes between versions and
/// machines. There must be at least one name.
[[nodiscard]] std::string_view choose_by_hash(std::string_view key,
                                              std::span<const std::string> names);

}  // namespace oncebox
