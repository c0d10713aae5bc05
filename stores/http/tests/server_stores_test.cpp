#include "oncebox/http/server_stores.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "oncebox/testing/scripted_server.hpp"

namespace oncebox::http {
namespace {

using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;

Options options_of(const ScriptedServer& server) {
  return {.url = server.url(), .store = "ignored", .max_retries = 0};
}

TEST(ServerStores, AreListedPageByPage) {
  ScriptedServer server([](const ReceivedRequest& request) {
    if (request.target == "/v1/stores?limit=1000") {
      return Reaction{.body = R"({"stores":[{"name":"main","default":true,"state":"Open",)"
                              R"("health":"Healthy"}],"next":"a+b",)"
                              R"("discovery":{"health":"Degraded","detail":"no list"}})"};
    }
    EXPECT_EQ(request.target, "/v1/stores?limit=1000&after=a%2Bb");
    return Reaction{.body = R"({"stores":[{"name":"eu","default":false,"state":"Down",)"
                            R"("health":"Unavailable","detail":"nobody answers"}],)"
                            R"("discovery":{"health":"Degraded","detail":"no list"}})"};
  });
  const ServerStoreList list = list_server_stores(options_of(server));
  ASSERT_EQ(list.stores.size(), 2U);
  EXPECT_EQ(list.stores[0].name, "main");
  EXPECT_TRUE(list.stores[0].is_default);
  EXPECT_TRUE(list.stores[0].is_open);
  EXPECT_FALSE(list.stores[1].is_open);
  EXPECT_EQ(list.stores[1].health.detail, "nobody answers");
  EXPECT_EQ(list.discovery.status, HealthStatus::degraded);
  EXPECT_EQ(list.discovery.detail, "no list");
}

TEST(ServerStores, AreRefreshed) {
  ScriptedServer server([](const ReceivedRequest& request) {
    EXPECT_EQ(request.target, "/v1/stores/refresh");
    return Reaction{.body = R"({"added":["a","b"],"removed":["c"],"reopened":[],"down":["b"]})"};
  });
  const RefreshResult expected{.added = {"a", "b"}, .removed = {"c"}, .down = {"b"}};
  EXPECT_EQ(refresh_server_stores(options_of(server)), expected);
}

TEST(ServerStores, AnAnswerThatIsNoListIsAnError) {
  for (const char* const body : {"[]", "{}", "no", R"({"stores":7})"}) {
    ScriptedServer server([&](const ReceivedRequest&) { return Reaction{.body = body}; });
    expect_error(ErrorCode::internal, [&] { (void)list_server_stores(options_of(server)); });
  }
}

}  // namespace
}  // namespace oncebox::http
