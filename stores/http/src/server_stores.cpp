#include "oncebox/http/server_stores.hpp"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <utility>

#include "http_client.hpp"
#include "json_fields.hpp"
#include "oncebox/error.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/health_json.hpp"

namespace oncebox::http {

namespace {

namespace json = boost::json;

constexpr std::string_view kFirstPage = "/stores?limit=1000";

Options of_service(Options options) {
  options.store.clear();
  return options;
}

json::object answered_object(std::string_view body) {
  json::error_code not_json;
  json::value answer = json::parse(body, not_json);
  if (not_json || !answer.is_object()) throw Error(ErrorCode::internal, "it is no JSON object");
  return std::move(answer.get_object());
}

std::vector<std::string> names_in(const json::object& object, std::string_view field) {
  std::vector<std::string> names;
  const json::value* const list = object.if_contains(field);
  if (list == nullptr || !list->is_array()) return names;
  for (const json::value& name : list->get_array()) {
    if (name.is_string()) names.emplace_back(name.get_string());
  }
  return names;
}

/// Adds a page, and answers where the next one begins.
std::string add_page(std::string_view body, ServerStoreList& list) {
  const json::object page = answered_object(body);
  const json::value* const stores = page.if_contains("stores");
  if (stores == nullptr || !stores->is_array()) {
    throw Error(ErrorCode::internal, "it is no list of stores");
  }
  for (const json::value& store : stores->get_array()) {
    if (!store.is_object()) continue;
    const json::object& entry = store.get_object();
    list.stores.push_back({.name = text_of(entry, "name"),
                           .is_default = is_true(entry, "default"),
                           .is_open = text_of(entry, "state") == "Open",
                           .health = health_of(entry)});
  }
  if (const json::value* const discovery = page.if_contains("discovery");
      discovery != nullptr && discovery->is_object()) {
    list.discovery = health_of(discovery->get_object());
  }
  return text_of(page, "next");
}

}  // namespace

ServerStoreList list_server_stores(const Options& options) {
  HttpClient client(of_service(options));
  ServerStoreList list;
  std::string path(kFirstPage);
  for (;;) {
    const std::size_t before = list.stores.size();
    const std::string next =
        client.call({.method = Method::get, .path = path, .effect = Effect::reads},
                    [&](std::string_view body) { return add_page(body, list); });
    if (next.empty() || list.stores.size() == before) return list;
    path = fmt::format("{}&after={}", kFirstPage, wire::percent_encode(next));
  }
}

ServerHealth server_health(const Options& options) {
  HttpClient client(of_service(options));
  return client.call({.method = Method::get, .path = "/health", .effect = Effect::reads},
                     [](std::string_view body) {
                       wire::ServiceHealth health = wire::read_health(body);
                       return ServerHealth{.report = std::move(health.report),
                                           .discovery = std::move(health.discovery)};
                     });
}

RefreshResult refresh_server_stores(const Options& options) {
  HttpClient client(of_service(options));
  return client.call({.path = "/stores/refresh", .body = "{}"}, [](std::string_view body) {
    const json::object answer = answered_object(body);
    return RefreshResult{.added = names_in(answer, "added"),
                         .removed = names_in(answer, "removed"),
                         .reopened = names_in(answer, "reopened"),
                         .down = names_in(answer, "down")};
  });
}

}  // namespace oncebox::http
