#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox {

enum class Routing {
  by_name,  ///< the key is the name of a store: a tenant has a database of its own
  by_hash,  ///< the key chooses one of all stores, the same one for ever: many share some databases
};

/// Which of the names a key belongs to: the one that, hashed together with the key, comes first
/// (rendezvous hashing). The answer depends on nothing else, and never changes between versions and
/// machines. There must be at least one name.
[[nodiscard]] std::string_view choose_by_hash(std::string_view key,
                                              std::span<const std::string> names);

namespace detail {

/// Leads a routing key to a thing that is made once for each store, and let go with it.
class StoreRoutes {
 public:
  using Make = std::function<std::shared_ptr<void>(const MemberStorePtr& member)>;

  /// Set and clock are borrowed.
  StoreRoutes(StoreSet& stores, Routing routing, Make make, const Clock& clock);
  ~StoreRoutes();
  StoreRoutes(const StoreRoutes&) = delete;
  StoreRoutes& operator=(const StoreRoutes&) = delete;

  [[nodiscard]] std::shared_ptr<void> find(std::string_view key);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

/// Leads a routing key, as a rule a tenant, to a part of its store: see `InboxRouter` and
/// `OutboxRouter`. Parts are made once and kept for as long as their stores are in the set.
///
/// **By hash.** Every store of the set counts, also one that is down: its keys wait for it. When a
/// store is added to N others, about 1 of N + 1 keys moves, and only to the new one; what had been
/// stored elsewhere under such a key is not recognised any more. Until a discovery has succeeded
/// every key is `unavailable`, as it cannot be told where it belongs.
///
/// **Threads.** Every call but the destructor may be made from any thread at any time. The
/// destructor waits for what the parts have taken, also those of stores that have left the set.
template <class Part>
class StoreRouter {
 public:
  /// Throws `invalid_argument` for a blank key, `not_found` for one that leads nowhere, and
  /// `unavailable` while its store is down or not yet discovered. The store stays open while
  /// its part is held; a caller that keeps one for long may write to a store that has left the
  /// set.
  [[nodiscard]] std::shared_ptr<Part> route(std::string_view key) {
    return std::static_pointer_cast<Part>(routes_.find(key));
  }
  [[nodiscard]] std::shared_ptr<Part> route(const Uuid& key) { return route(key.to_string()); }
  template <std::integral Key>
  [[nodiscard]] std::shared_ptr<Part> route(Key key) {
    return route(std::string_view(std::to_string(key)));
  }

 protected:
  using Make = std::function<std::shared_ptr<Part>(const MemberStorePtr& member)>;

  StoreRouter(StoreSet& stores, Routing routing, Make make, const Clock& clock)
      : routes_(stores, routing, std::move(make), clock) {}
  ~StoreRouter() = default;

 private:
  detail::StoreRoutes routes_;
};

}  // namespace oncebox
