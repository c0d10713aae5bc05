#include "openapi/openapi.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <map>
#include <set>
#include <string>

#include "api/api.hpp"
#include "api/borrowed_stores.hpp"
#include "observe/metrics.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "webhooks/webhooks.hpp"

namespace oncebox::server {
namespace {

/// "GET /v1/inbox/{key}" and the scope that it needs.
using Operations = std::map<std::string, std::string>;

Operations described_operations() {
  Operations operations;
  const boost::json::value document = boost::json::parse(embedded::openapi_json());
  for (const auto& path : document.at("paths").as_object()) {
    for (const auto& operation : path.value().as_object()) {
      std::string name(operation.key());
      for (char& letter : name) letter = static_cast<char>(letter & ~0x20);
      name += ' ';
      name += path.key();
      const boost::json::value* scope = operation.value().as_object().if_contains("x-scope");
      operations[name] = scope != nullptr ? std::string(scope->as_string()) : "open";
    }
  }
  return operations;
}

Operations routed_operations() {
  const SystemClock clock;
  NullLogger logger;
  Metrics metrics;
  memory::MemoryStore store;
  const ServerOptions options;
  const auto stores = borrowed_set({{"main", store}}, logger);
  Api api(options, *stores, metrics, {.logger = logger, .clock = clock});
  Webhooks webhooks({}, nullptr, api.calls(), metrics, logger, clock);
  Router router;
  api.add_routes(router);
  webhooks.add_routes(router);
  add_openapi_routes(router);

  // What the server adds to them when it puts them together.
  Operations operations = {
      {"GET /healthz", "open"}, {"GET /metrics", "read"}, {"GET /readyz", "open"}};
  for (const Route& route : router.routes()) {
    std::string pattern = route.pattern;
    if (const auto rest = pattern.find("*}"); rest != std::string::npos) pattern.erase(rest, 1);
    operations[std::string(to_string(route.method)) + " " + pattern] = to_string(route.scope);
  }
  return operations;
}

TEST(Openapi, DescribesEveryRouteWithItsScopeAndNothingElse) {
  const Operations described = described_operations();
  const Operations routed = routed_operations();
  EXPECT_GT(routed.size(), 100u);
  for (const auto& [operation, scope] : routed) {
    const auto found = described.find(operation);
    if (found == described.end()) {
      ADD_FAILURE() << operation << " is not in openapi.json";
    } else {
      EXPECT_EQ(found->second, scope) << operation;
    }
  }
  for (const auto& [operation, scope] : described) {
    EXPECT_TRUE(routed.contains(operation)) << operation << " is described, but there is no route";
  }
}

TEST(Openapi, EveryOperationHasANameOfItsOwn) {
  std::set<std::string> names;
  const boost::json::value document = boost::json::parse(embedded::openapi_json());
  for (const auto& path : document.at("paths").as_object()) {
    for (const auto& operation : path.value().as_object()) {
      const std::string name(operation.value().at("operationId").as_string());
      EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    }
  }
}

TEST(Openapi, ThePageNeedsNothingFromElsewhere) {
  for (const std::string_view file :
       {embedded::docs_html(), embedded::docs_js(), embedded::docs_css()}) {
    EXPECT_GT(file.size(), 500u);
    EXPECT_EQ(file.find("http://"), std::string_view::npos);
    EXPECT_EQ(file.find("https://"), std::string_view::npos);
    EXPECT_EQ(file.find("innerHTML"), std::string_view::npos);
  }
  const std::string_view page = embedded::docs_html();
  EXPECT_EQ(page.find("<style"), std::string_view::npos);
  EXPECT_EQ(page.find("<script>"), std::string_view::npos);
  EXPECT_EQ(page.find("style="), std::string_view::npos);
}

}  // namespace
}  // namespace oncebox::server
