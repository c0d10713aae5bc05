#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "oncebox/handlers.hpp"
#include "oncebox/inbox_processor.hpp"
#include "oncebox/inbox_router.hpp"
#include "oncebox/store_set.hpp"

namespace oncebox {

namespace detail {
/// The name of the store that a routing key leads to.
[[nodiscard]] std::string routed_store(const StoreSet& stores, Routing routing,
                                       std::string_view key);
}  // namespace detail

/// An inbox processor for each store of a set, so that the keys of a tenant live where its messages
/// do. Beside an `InboxRouter` with the same routing it finds the same store for the same key.
///
///     InboxProcessorRouter<OrderPaid, std::string> router(stores, [&](IdempotencyStore& keys) {
///       return IdempotentReceiver<OrderPaid, std::string>::over(keys, accept).build();
///     });
///     handlers.on("order.paid", router.handler());  // of a `SetDispatcher` over the same set
///
/// Processors are made when they are first asked for, and let go with their stores. Every call but
/// the destructor may be made from any thread.
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
      routes->of_store(context.store())->handle(message, context);
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
      // Found under the lock: should it leave the set right after, `on_removed` waits for us, and
      // then finds its processor.
      const std::lock_guard lock(mutex);
      const MemberStorePtr member = stores.find(name);
      std::shared_ptr<Routed>& routed = by_store[member.get()];
      if (routed == nullptr) routed = std::make_shared<Routed>(member, make, options);
      return {routed, &routed->processor};
    }

    void on_opened(const MemberStorePtr& /*member*/) noexcept override {}
    void on_removed(const MemberStorePtr& member) noexcept override {
      typename ByStore::node_type gone;  // let go outside the lock
      const std::lock_guard lock(mutex);
      gone = by_store.extract(member.get());
    }

    using ByStore = std::map<const MemberStore*, std::shared_ptr<Routed>>;
    StoreSet& stores;
    const MakeReceiver make;
    const InboxProcessorOptions options;
    std::mutex mutex;
    ByStore by_store;
  };

  const Routing routing_;
  const std::shared_ptr<Routes> routes_;
};

}  // namespace oncebox
