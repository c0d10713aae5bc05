#include "api/api_routes.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "http/answers.hpp"
#include "http/media_type.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

constexpr std::string_view kNamedStore = "/v1/stores/{store}";

std::optional<Response> refuse_body(const Request& request, BodyKind body) {
  if (request.method != Method::post) return std::nullopt;
  const MediaType type = media_type(request.fields);
  if (type == MediaType::json || type == MediaType::none) return std::nullopt;
  if (type == MediaType::ndjson && body == BodyKind::ndjson_streamed) return std::nullopt;
  return problem_response(
      {.status = 415,
       .code = "unsupported_media_type",
       .title = "Unsupported media type",
       .detail = body == BodyKind::ndjson_streamed
                     ? "send Content-Type: application/json or application/x-ndjson"
                     : "send Content-Type: application/json"},
      request);
}

Handler checked(BodyKind body, std::function<void(const ExchangePtr&)> handler) {
  return [body, handler = std::move(handler)](const ExchangePtr& exchange) {
    if (auto refusal = refuse_body(exchange->request(), body)) {
      exchange->send(std::move(*refusal));
      return;
    }
    handler(exchange);
  };
}

/// The log says which store a request was about, also when that is down.
ServedStorePtr find_for(const ExchangePtr& exchange, ServedStores& stores, std::string_view name) {
  const Principal& principal = exchange->request().principal;
  const std::string_view wanted = name.empty() ? stores.default_name() : name;
  if (principal.limits && !allows(principal.limits->stores, wanted)) {
    throw NotAllowed("this token is limited to other stores");
  }
  try {
    ServedStorePtr store = stores.find(name);
    exchange->note_store(store->name());
    return store;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unavailable) {
      exchange->note_store(name.empty() ? stores.default_name() : std::string(name));
    }
    throw;
  }
}

void add_checked(Router& router, const ApiRoute& route, std::string pattern,
                 std::function<void(const ExchangePtr&)> handler) {
  router.add({.method = route.method,
              .pattern = std::move(pattern),
              .scope = route.scope,
              .handler = checked(route.body, std::move(handler)),
              .body = route.body,
              .limits = route.limits});
}

}  // namespace

void add_store_route(Router& router, const ApiContext& context, const ApiRoute& route,
                     std::function<void(const StoreCall&)> handler) {
  ServedStores& stores = context.stores;
  add_checked(router, route, fmt::format("/v1{}", route.path),
              [&stores, handler](const ExchangePtr& exchange) {
                handler({exchange, find_for(exchange, stores, {}), exchange->request().arguments});
              });
  add_checked(
      router, route, fmt::format("{}{}", kNamedStore, route.path),
      [&stores, handler = std::move(handler)](const ExchangePtr& exchange) {
        const std::span<const std::string> arguments = exchange->request().arguments;
        handler({exchange, find_for(exchange, stores, arguments.front()), arguments.subspan(1)});
      });
}

void add_queue_route(Router& router, const ApiContext& context, const ApiRoute& route,
                     std::function<void(const QueueCall&)> handler) {
  for (const QueueKind kind : kQueueKinds) {
    const std::string path = kind == QueueKind::inbox
                                 ? std::string(route.path)
                                 : fmt::format("/{}{}", to_string(kind), route.path);
    ApiRoute of_queue = route;
    of_queue.path = path;
    // Whoever may send messages says what they are about, and not to whom they go.
    if (kind == QueueKind::deliveries && route.scope == Scope::produce) {
      of_queue.scope = Scope::operate;
    }
    add_store_route(router, context, of_queue, [kind, handler](const StoreCall& call) {
      handler({call.exchange, {call.store, &call.store->queue(kind)}, call.arguments});
    });
  }
}

std::string_view body_or_empty_object(const Request& request) noexcept {
  return request.body.empty() ? std::string_view("{}") : std::string_view(request.body);
}

void require_no_query(const Request& request) {
  if (request.query.empty()) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: not a parameter of this call",
                                                       clip_text(request.query.front().name, 100)));
}

}  // namespace oncebox::server
