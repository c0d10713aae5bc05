#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/api_json.hpp"
#include "api/api_routes.hpp"
#include "api/shared_answer.hpp"
#include "oncebox/error.hpp"
#include "oncebox/wire/encoding.hpp"

/// The stores: which there are, how they are, and looking for new ones.
namespace oncebox::server {

namespace {

constexpr std::size_t kUsualPage = 100;
constexpr std::size_t kLargestPage = 1'000;

struct StoresQuery {
  std::optional<std::string> name = {};
  std::string after = {};  ///< names behind this one
  std::size_t limit = kUsualPage;
};

std::size_t read_page_limit(const std::string& text) {
  std::size_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw Error(ErrorCode::invalid_argument, "limit: a whole number is needed");
  }
  require_in_range("limit", limit, std::size_t{1}, kLargestPage);
  return limit;
}

StoresQuery read_stores_query(const Request& request) {
  StoresQuery query;
  for (const wire::QueryParameter& parameter : request.query) {
    if (parameter.name == "name") {
      query.name = parameter.value;
    } else if (parameter.name == "limit") {
      query.limit = read_page_limit(parameter.value);
    } else if (parameter.name == "after") {
      const auto name = wire::from_base64(parameter.value);
      if (!name)
        throw Error(ErrorCode::invalid_argument, "after: this is not the `next` of a list");
      query.after = *name;
    } else {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: not a parameter of this call", clip_text(parameter.name, 100)));
    }
  }
  return query;
}

void require_empty_body(const Request& request) {
  if (body_or_empty_object(request) == "{}") return;
  throw Error(ErrorCode::invalid_argument, "this call takes no body");
}

/// Its health is that of the last time it was asked: a store that hangs must not hold up the list.
StoreReport report_of(ServedStores& stores, const MemberState& state) {
  StoreReport report{.name = state.name,
                     .is_default = state.name == stores.default_name(),
                     .health = {HealthStatus::unavailable, state.failure}};
  const ServedStorePtr served = state.open ? stores.find_open(state.name) : nullptr;
  if (!served) return report;
  report.health = served->last_health();
  report.capabilities = served->store().capabilities();
  return report;
}

/// The default store comes first; the others are sorted by name.
void put_default_first(std::vector<MemberState>& states, const std::string& name) {
  const auto found = std::ranges::find(states, name, &MemberState::name);
  if (found != states.end()) std::rotate(states.begin(), found, found + 1);
}

std::string list_stores(ServedStores& stores, const StoresQuery& query,
                        const Principal& principal) {
  std::vector<MemberState> states = stores.set().states();
  if (principal.limits) {
    std::erase_if(states, [&](const MemberState& state) {
      return !allows(principal.limits->stores, state.name);
    });
  }
  put_default_first(states, stores.default_name());
  if (query.name) {
    std::erase_if(states, [&](const MemberState& state) { return state.name != *query.name; });
  }
  if (!query.after.empty()) {
    // Also when the store of this name is gone.
    const bool after_default = query.after == stores.default_name();
    std::erase_if(states, [&](const MemberState& state) {
      return state.name == stores.default_name() || (!after_default && state.name <= query.after);
    });
  }
  StoresReport report{.discovery = stores.set().discovery_health()};
  for (const MemberState& state : states) {
    if (report.stores.size() == query.limit) {
      report.next = wire::to_base64(report.stores.back().name);
      break;
    }
    report.stores.push_back(report_of(stores, state));
  }
  return write_stores(report);
}

/// A list of stores that cannot be read is not the client's fault.
RefreshResult refresh(StoreSet& stores) {
  try {
    return stores.refresh();
  } catch (const Error& error) {
    throw Error(ErrorCode::unavailable,
                fmt::format("the stores stay as they are: {}", error.what()));
  }
}

/// A single store is asked for its health, in its own lane.
void answer_about_one(ServedStores& stores, const ServedStorePtr& store,
                      const ExchangePtr& exchange, const StoresQuery& query) {
  store->calls.answer(exchange, [&stores, store, query](const Request& request) {
    store->ask_health();
    return json_response(list_stores(stores, query, request.principal));
  });
}

}  // namespace

void add_store_routes(Router& router, const ApiContext& context) {
  ServedStores& stores = context.stores;
  CallPool& calls = context.parts.calls;
  router.add({.method = Method::get,
              .pattern = "/v1/stores",
              .scope = Scope::read,
              .handler =
                  [&stores, &calls](const ExchangePtr& exchange) {
                    StoresQuery query = read_stores_query(exchange->request());
                    const ServedStorePtr one = query.name ? stores.find_open(*query.name) : nullptr;
                    if (one) return answer_about_one(stores, one, exchange, query);
                    calls.answer(
                        exchange, [&stores, query = std::move(query)](const Request& request) {
                          return json_response(list_stores(stores, query, request.principal));
                        });
                  },
              .limits = HeldLimits::all});
  // A discovery that hangs takes two call threads at most, however many clients ask.
  const auto refreshing = std::make_shared<SharedAnswer>();
  const auto refresh_once = [refreshing, &stores] {
    return [body = write_refreshed(refresh(stores.set()))](const Request&) {
      return json_response(body);
    };
  };
  router.add({.method = Method::post,
              .pattern = "/v1/stores/refresh",
              .scope = Scope::operate,
              .handler = [refreshing, refresh_once, &calls](const ExchangePtr& exchange) {
                require_no_query(exchange->request());
                require_empty_body(exchange->request());
                refreshing->ask(calls, exchange, refresh_once);
              }});
}

}  // namespace oncebox::server
