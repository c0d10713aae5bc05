#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kept_attempts.hpp"
#include "oncebox/error.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/testing/postgresql_server.hpp"

namespace oncebox {
namespace {

// Nobody listens there, so that whatever is refused was refused before anybody was asked.
const std::string kNowhere = "postgresql://me:s3cret@127.0.0.1:1/nothing";

Error error_of(const std::string& url) {
  try {
    (void)open_store(url);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return {ErrorCode::internal, "none"};
}

TEST(OpenPostgresql, EveryUrlThatLibpqReadsOpensTheDatabase) {
  RecordProperty("requirement", "IBX-013");
  const testing::PostgresqlServer server;
  const std::string port = std::to_string(server.port());
  EXPECT_EQ(error_of(server.url()).code(), ErrorCode::conflict) << "deployment is off";
  open_store(server.url() + "?schema_deployment=on")
      ->inbox()
      .enqueue({.key = {"shop", "1"}, .topic = "order.created"});

  const std::string folder = server.socket_folder();
  const std::vector<std::string> urls{
      server.url(),
      server.url() + "?",
      server.socket_url(),
      "postgres://postgres@127.0.0.1:" + port + "/postgres",
      "postgres://p%6Fstgres:p%3Fw%40@127%2E0.0.1:" + port + "/post%67res?schema=inf%72a",
      "postgresql://postgres:what?@127.0.0.1:" + port + "/postgres?max_connections=2",
      "postgresql:///postgres?host=127.0.0.1&port=" + port + "&user=postgres&schema=infra",
      "postgresql:///postgres?port=" + port + "&user=postgres&schema=infra&host=" + folder,
      "postgresql://postgres@127.0.0.1:1,127.0.0.1:" + port +
          "/postgres?schema=infra&target_session_attrs=read-write",
      "postgresql://postgres@[::1]:1,127.0.0.1:" + port + "/postgres",
      "postgresql://nobody@127.0.0.1:" + port + "/nothing?schema=infra&user=postgres" +
          "&dbname=postgres&application_name=a&application_name=b&connect_timeout=3" +
          "&sslmode=prefer&keepalives_idle=5&options=-c%20work_mem%3D1MB&connect_timeout_s=4"};
  for (const std::string& url : urls) {
    SCOPED_TRACE(url);
    EXPECT_TRUE(open_store(url)->inbox().find({"shop", "1"}));
  }
}

TEST(OpenPostgresql, ParametersOfTheUrlAreTheOptionsOfTheStore) {
  const testing::PostgresqlServer server;
  const auto store =
      open_store(server.url() + "?schema=Shop&table_prefix=X_&schema_deployment=on&" +
                 "pooling=transaction&max_connections=1&call_timeout_ms=5000&flush_claims=off&" +
                 "max_payload_bytes=3&kept_attempts=2");
  EXPECT_EQ(store->capabilities().max_payload_bytes, 3U);
  EXPECT_FALSE(store->capabilities().notifies);
  store->inbox().enqueue({.key = {"shop", "1"}, .topic = "order.created", .payload = "123"});
  EXPECT_EQ(store->inbox().claim({.owner = OwnerToken::generate()}).size(), 1U);
  EXPECT_EQ(numbers_of_kept_attempts(*store), (std::vector<int>{3, 4}));
  const auto same = open_store(server.url() + "?table_prefix=X_&schema=Shop");
  EXPECT_TRUE(same->inbox().find({"shop", "1"}));
}

TEST(OpenPostgresql, StoresOfOneOpenerShareTheConnectionsOfAServer) {
  testing::PostgresqlServer server;
  const std::string budget = "?schema_deployment=on&call_timeout_ms=60000&server_connections=";
  StoreOpener opener;
  std::vector<std::unique_ptr<Store>> stores;
  for (const std::string name : {"one", "two", "three"}) {
    server.execute("CREATE DATABASE " + name);
    stores.push_back(opener.open(server.url(name) + budget + "2"));
    stores.back()->inbox().enqueue({.key = {"shop", name}, .topic = "t"});
  }
  EXPECT_EQ(server.execute("SELECT count(*) <= 2 FROM pg_stat_activity WHERE datname IN "
                           "('one', 'two', 'three')"),
            "t");
  EXPECT_TRUE(stores[0]->inbox().find({"shop", "one"})) << "though its connection gave way";
  try {
    (void)opener.open(server.url("one") + budget + "3");
    ADD_FAILURE() << "two budgets for one server";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
  }
  stores.clear();
  EXPECT_TRUE(opener.open(server.url("one") + budget + "3")->inbox().find({"shop", "one"}));
}

TEST(OpenPostgresql, AnAtSignInThePasswordIsRefusedBeforeAPartOfItIsTakenForTheHost) {
  const Error error = error_of("postgresql://me:s3@cret@127.0.0.1:1/nothing");
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(std::string(error.what()).find("cret"), std::string::npos) << error.what();
}

TEST(OpenPostgresql, BadParametersAreRefusedAndThePasswordIsNotShown) {
  const std::vector<std::pair<std::string, ErrorCode>> bad{
      {"?schema_deployment=perhaps", ErrorCode::invalid_argument},
      {"?pooling=session", ErrorCode::invalid_argument},
      {"?flush_claims=1", ErrorCode::invalid_argument},
      {"?max_connections=many", ErrorCode::invalid_argument},
      {"?schema=a&schema=b", ErrorCode::invalid_argument},
      {"?schema=a%20b", ErrorCode::invalid_argument},
      {"?table_prefix=a%22", ErrorCode::invalid_argument},
      {"?schema=", ErrorCode::invalid_argument},
      {"?nonsense=1", ErrorCode::invalid_argument},
      {"?sslmode", ErrorCode::invalid_argument},
      {"?sslmode=%zz", ErrorCode::invalid_argument},
      {"?max_connections=0", ErrorCode::out_of_range},
      {"?call_timeout_ms=1", ErrorCode::out_of_range},
      {"?call_timeout_ms=18446744073709551615", ErrorCode::out_of_range},
      {"?connect_timeout_s=0", ErrorCode::out_of_range},
      {"?max_payload_bytes=0", ErrorCode::out_of_range},
      {"?idle_timeout_s=100000", ErrorCode::out_of_range},
      {"?server_connections=10001", ErrorCode::out_of_range},
      {"?server_connections=few", ErrorCode::invalid_argument},
      {"", ErrorCode::unavailable}};
  for (const auto& [parameters, code] : bad) {
    const Error error = error_of(kNowhere + parameters);
    EXPECT_EQ(error.code(), code) << parameters << ": " << error.what();
    EXPECT_EQ(std::string(error.what()).find("s3cret"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace oncebox
