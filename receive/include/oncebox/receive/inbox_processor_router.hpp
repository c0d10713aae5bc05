#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/error.hpp"
#include "oncebox/fleet/inbox_router.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/receive/inbox_processor.hpp"

namespace oncebox {

namespace detail {
/// The name of the store that a routing key leads to.
[[nodiscard]] std::string routed_store(const StoreSet& stores, Routing routing,
                                       std::string_view key);
/// Because of the exception that is being handled; throws that itself when it says something else
/// than that the store is not there.
[[noreturn]] void throw_store_away(std::string_view store);
}  // namespace detail

/// An inbox processor for each store of a set, so that the keys of a tenant live where its messages
/// do. Beside an `InboxRouter` with the same routing it finds the same store for the same key.
///
///     InboxProcessorRouter<OrderPaid, std::string> router(stores, [&](IdempotencyStore& keys) {
///       return IdempotentReceiver<OrderPaid, std::string>::over(keys, accept).build();
///     });
///     handlers.on("order.paid", router.handler());  // of a `SetDispatcher` over the same set
///
/// Processors are made when they are first asked for, and let go with their stores. A message of a
/// store that leaves the set while it is on its way is processed if its processor is still there,
/// and otherwise tried again shortly, by the process that looks after its store then.
///
/// Every call but the destructor may be made from any thread. The function that makes receivers is
/// called outside every lock, so sometimes twice at once for a store; one of the two is dropped.
template <class Payload, StorableResult Result>
class InboxProcessorRouter {
 public:
  using Processor = InboxProcessor<Payload, Result>;
  using MakeReceiver = std::function<IdempotentReceiver<Payload, Result>(IdempotencyStore& keys)>;

  /// The set is borrowed.
  InboxProcessorRouter(StoreSet& stores, MakeReceiver make, Routing routing = Routing::by_name,
                       const InboxProcessorOptions& options = {})
      : routing_(routing), routes_(std::make_shared<Routes>(stores, std::move(make), options)) {
    stores.listen(routes_);
  }

  /// Throws as `InboxRouter::route`. The store stays open while somebody holds its processor.
  [[nodiscard]] std::shared_ptr<Processor> route(std::string_view key) {
    return routes_->of_store(detail::routed_store(routes_->stores, routing_, key));
  }

  /// Processes each message by the processor of the store that it comes from.
  [[nodiscard]] std::shared_ptr<Handler> handler()
    requires DecodablePayload<Payload>
  {
    const auto call = [routes = routes_](const ClaimedMessage& message, HandlerContext& context) {
      routes->of_message_from(context.store())->handle(message, context);
    };
    return std::make_shared<detail::CallableHandler<decltype(call)>>(call);
  }

 private:
  struct Routed {
    Routed(MemberStorePtr of, const MakeReceiver& make, const InboxProcessorOptions& options)
        : member(std::move(of)), processor(make(member->store().keys()), options) {}

    const MemberStorePtr member;
    Processor processor;
  };

  struct Routes final : StoreSetListener {
    Routes(StoreSet& set, MakeReceiver make_receiver, const InboxProcessorOptions& with)
        : stores(set), make(std::move(make_receiver)), options(with) {}

    std::shared_ptr<Processor> of_store(std::string_view name) {
      const MemberStorePtr member = stores.find(name);
      std::shared_ptr<Routed> routed = known(member);
      if (routed == nullptr) routed = keep(std::make_shared<Routed>(member, make, options));
      return {routed, &routed->processor};
    }

    std::shared_ptr<Processor> of_message_from(std::string_view store) {
      try {
        return of_store(store);
      } catch (const Error&) {
        // The set has let it go, and `on_removed` comes next: its keys are still open.
        if (const std::shared_ptr<Routed> routed = known(store))
          return {routed, &routed->processor};
        detail::throw_store_away(store);
      }
    }

    std::shared_ptr<Routed> known(const MemberStorePtr& member) {
      const detail::Lock lock(mutex);
      const auto found = by_store.find(member.get());
      return found == by_store.end() ? nullptr : found->second;
    }

    std::shared_ptr<Routed> known(std::string_view name) {
      const detail::Lock lock(mutex);
      for (const auto& [member, routed] : by_store) {
        if (member->name() == name) return routed;
      }
      return nullptr;
    }

    /// The one that was kept first, if there is one.
    std::shared_ptr<Routed> keep(std::shared_ptr<Routed> made) {
      const detail::Lock lock(mutex);
      // Looked up under the lock: should the store leave the set right after, `on_removed` waits
      // for the lock, and then finds the processor. One whose store has left already serves this
      // call only.
      const std::vector<MemberStorePtr> open = stores.members();
      if (std::find(open.begin(), open.end(), made->member) == open.end()) return made;
      return by_store.try_emplace(made->member.get(), made).first->second;
    }

    void on_opened(const MemberStorePtr& /*member*/) noexcept override {}
    void on_removed(const MemberStorePtr& member) noexcept override {
      typename ByStore::node_type gone;  // let go outside the lock
      const detail::Lock lock(mutex);
      gone = by_store.extract(member.get());
    }

    using ByStore = std::map<const MemberStore*, std::shared_ptr<Routed>>;
    StoreSet& stores;
    const MakeReceiver make;
    const InboxProcessorOptions options;
    detail::Mutex mutex;
    ByStore by_store ONCEBOX_GUARDED_BY(mutex);
  };

  const Routing routing_;
  const std::shared_ptr<Routes> routes_;
};

}  // namespace oncebox
