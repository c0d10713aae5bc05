#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "api/served_stores.hpp"
#include "http/router.hpp"

/// The groups of routes below `/v1`, and how they are added: each for the default store and, below
/// `/v1/stores/{store}`, for a named one.
namespace oncebox::server {

struct ApiContext {
  const ApiParts& parts;
  ServedStores& stores;
};

void add_enqueue_routes(Router& router, const ApiContext& context);
void add_work_routes(Router& router, const ApiContext& context);
void add_operator_routes(Router& router, const ApiContext& context);
void add_edit_routes(Router& router, const ApiContext& context);
void add_audit_routes(Router& router, const ApiContext& context);
void add_endpoint_routes(Router& router, const ApiContext& context);
void add_recovery_routes(Router& router, const ApiContext& context);
void add_key_routes(Router& router, const ApiContext& context);
void add_store_routes(Router& router, const ApiContext& context);

/// A request about one store. What it borrows lives as long as the exchange.
struct StoreCall {
  const ExchangePtr& exchange;
  ServedStorePtr store;                    ///< a call that goes on later copies it
  std::span<const std::string> arguments;  ///< of the path behind the store's name

  [[nodiscard]] const Request& request() const { return exchange->request(); }
};

/// A request about one queue of a store.
struct QueueCall {
  const ExchangePtr& exchange;
  ServedQueuePtr queue;
  std::span<const std::string> arguments;

  [[nodiscard]] const Request& request() const { return exchange->request(); }
};

/// The `path` stands behind `/v1`: "/messages/claim". A POST whose body is not JSON is refused,
/// unless the route streams NDJSON and it is that.
struct ApiRoute {
  Method method = Method::get;
  std::string_view path;
  Scope scope = Scope::read;
  BodyKind body = BodyKind::whole;
  /// The store is checked for every route; one that sees messages by source and topic, and checks
  /// these by `CallLimits`, says `all`.
  HeldLimits limits = HeldLimits::stores;
};

void add_store_route(Router& router, const ApiContext& context, const ApiRoute& route,
                     std::function<void(const StoreCall&)> handler);
/// For the inbox, and with `/outbox` or `/deliveries` before the path for the other queues. What
/// takes the scope produce takes operate for the deliveries.
void add_queue_route(Router& router, const ApiContext& context, const ApiRoute& route,
                     std::function<void(const QueueCall&)> handler);

/// The body; `{}` when there is none, for calls that need none.
[[nodiscard]] std::string_view body_or_empty_object(const Request& request) noexcept;

/// Throws `invalid_argument`, naming the first, when there are query parameters: for calls that
/// take none.
void require_no_query(const Request& request);

}  // namespace oncebox::server
