#include <memory>
#include <utility>

#include "oncebox/fleet/inbox_router.hpp"
#include "oncebox/fleet/outbox_router.hpp"

namespace oncebox {

namespace {

/// Inbox or outbox of a store, which stays open while it is held.
template <class Part, class Options>
struct Routed {
  Routed(const MemberStorePtr& of, Options options, const SurroundingsOfStores& surroundings)
      : member(of),
        part(of->store(), named(std::move(options), of->name()), surroundings.of(of->name())) {}

  static Options named(Options options, const std::string& name) {
    options.name = name;
    return options;
  }

  const MemberStorePtr member;
  Part part;
};

template <class Part, class Options>
auto maker(const Options& options, const SurroundingsOfStores& surroundings) {
  return [options, surroundings](const MemberStorePtr& member) -> std::shared_ptr<Part> {
    const auto routed = std::make_shared<Routed<Part, Options>>(member, options, surroundings);
    return {routed, &routed->part};
  };
}

}  // namespace

InboxRouter::InboxRouter(StoreSet& stores, const InboxRouterOptions& options,
                         const SurroundingsOfStores& surroundings)
    : StoreRouter(stores, options.routing, maker<Inbox>(options.inbox, surroundings),
                  surroundings.clock) {}

OutboxRouter::OutboxRouter(StoreSet& stores, const OutboxRouterOptions& options,
                           const SurroundingsOfStores& surroundings)
    : StoreRouter(stores, options.routing, maker<Outbox>(options.outbox, surroundings),
                  surroundings.clock) {}

}  // namespace oncebox
