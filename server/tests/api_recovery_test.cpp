// What failed, in groups, and how it comes back.

#include <boost/json.hpp>

#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "oncebox/operate/dead_groups.hpp"

namespace oncebox::server {
namespace {

namespace json = boost::json;

class RecoveryRoutesTest : public ApiTest {
 protected:
  RecoveryRoutesTest() : ApiTest(quiet_options()) {}

  void bury(const std::string& id, const std::string& topic, const std::string& error) {
    enqueue(id, topic);
    store_->inbox().mark(Mark{.key = {"shop", id}, .as = MarkAs::dead, .error = error});
  }
  [[nodiscard]] static std::string group_of(const std::string& topic, const std::string& error) {
    return topic + ":" + error_fingerprint(error);
  }
  [[nodiscard]] std::int64_t due(const std::string& id) {
    return (*record(id).eligible_at - clock_.now()).count();
  }
};
ONCEBOX_OVER_EACH_STORE(RecoveryRoutesTest);

TEST_P(RecoveryRoutesTest, GroupsTheDead) {
  RecordProperty("requirement", "R-30");
  bury("a", "order", "no address for 1");
  bury("b", "order", "no address for 2");
  bury("c", "mail", "timeout");
  const json::value all = json_of(call(get("/v1/dead/groups")));
  EXPECT_EQ(all.at("messages"), 3);
  EXPECT_EQ(all.at("complete"), true);
  ASSERT_EQ(all.at("groups").as_array().size(), 2U);
  const json::value& first = all.at("groups").at(0);
  EXPECT_EQ(first.at("group").as_string(), group_of("order", "no address for 7"));
  EXPECT_EQ(first.at("error"), "no address for <n>");
  EXPECT_EQ(first.at("count"), 2);

  const json::value some = json_of(call(get("/v1/dead/groups?topic=m*")));
  EXPECT_EQ(some.at("groups").as_array().size(), 1U);
  const json::value one = json_of(call(get("/v1/dead/groups?limit=1&maxMessages=2")));
  EXPECT_EQ(one.at("groups").as_array().size(), 1U);
  EXPECT_EQ(one.at("others"), 1);
  EXPECT_EQ(one.at("complete"), false);
  EXPECT_TRUE(json_of(call(get("/v1/outbox/dead/groups"))).at("groups").as_array().empty());
  for (const std::string query : {"limit=0", "limit=1001", "maxMessages=0", "status=Dead"}) {
    EXPECT_EQ(call(get("/v1/dead/groups?" + query)).status, 400) << query;
  }
}

TEST_P(RecoveryRoutesTest, RevivesAGroupAtARate) {
  RecordProperty("requirement", "R-30");
  for (const std::string id : {"a", "b", "c"}) bury(id, "order", "no address for " + id + "1000");
  bury("other", "order", "timeout");
  const std::string group = group_of("order", "no address for a1000");
  const std::string selection = R"("group":")" + group + R"(","perSecond":0.5)";
  const std::string group_c = R"({"group":")" + group_of("order", "no address for c1000") + R"("})";
  EXPECT_EQ(json_of(call(post("/v1/dead/revive", "{" + selection + R"(,"dryRun":true})"))),
            json::parse(R"({"count":1,"dryRun":true,"lastsSeconds":0})"));
  EXPECT_EQ(json_of(call(post("/v1/dead/revive", group_c))),
            json::parse(R"({"count":1,"dryRun":false})"));
  EXPECT_EQ(json_of(call(post("/v1/dead/revive", R"({"all":true,"perSecond":0.5})"))),
            json::parse(R"({"count":3,"dryRun":false,"lastsSeconds":4})"));
  EXPECT_EQ(due("a"), 0);
  EXPECT_EQ(due("b"), 2'000);
  EXPECT_EQ(due("other"), 4'000);
}

TEST_P(RecoveryRoutesTest, RevivesKeysAtARate) {
  bury("a", "order", "x");
  bury("b", "order", "x");
  const std::string keys = R"("keys":[{"source":"shop","messageId":"a"},
      {"source":"shop","messageId":"nobody"},{"source":"shop","messageId":"b"}],"perSecond":1)";
  EXPECT_EQ(json_of(call(post("/v1/dead/revive", "{" + keys + R"(,"dryRun":true})"))),
            json::parse(R"({"count":2,"dryRun":true,"lastsSeconds":1})"));
  EXPECT_EQ(json_of(call(post("/v1/dead/revive", "{" + keys + "}"))),
            json::parse(R"({"results":["Revived","Unknown","Revived"],"count":2})"));
  EXPECT_EQ(due("b"), 1'000);
}

TEST_P(RecoveryRoutesTest, PurgesAGroup) {
  RecordProperty("requirement", "R-30");
  bury("a", "order", "order 1 is late");
  bury("b", "order", "order 2 is late");
  bury("c", "order", "lost");
  const std::string group = R"("group":")" + group_of("order", "order 3 is late") + R"(")";
  EXPECT_EQ(json_of(call(post("/v1/dead/purge", "{" + group + R"(,"dryRun":true})"))),
            json::parse(R"({"count":2,"dryRun":true})"));
  EXPECT_EQ(json_of(call(post("/v1/dead/purge", "{" + group + "}"))),
            json::parse(R"({"count":2,"dryRun":false})"));
  EXPECT_FALSE(store_->inbox().find(MessageKey{"shop", "a"}));
  EXPECT_EQ(record("c").status, Status::dead);
}

TEST_P(RecoveryRoutesTest, ARateOrGroupThatMakesNoSenseChangesNothing) {
  bury("a", "order", "x");
  for (const std::string body :
       {R"({"all":true,"perSecond":0})", R"({"all":true,"perSecond":-1})",
        R"({"all":true,"perSecond":2000000})", R"({"all":true,"perSecond":"1"})",
        R"({"group":"order"})", R"({"group":"order:00ff17a92c03d5e8","all":true})",
        R"({"group":"order:00ff17a92c03d5e8","filter":{"status":["Done"]}})"}) {
    EXPECT_EQ(call(post("/v1/dead/revive", body)).status, 400) << body;
  }
  EXPECT_EQ(record("a").status, Status::dead);
}

TEST(RecoveryRoutesFaults, AWalkOverTheDeadEndsWhenItsClientIsGone) {
  const SystemClock clock;
  StuckStore stuck(clock);
  Store& store = stuck.store();
  for (const std::string id : {"a", "b"}) {
    store.inbox().enqueue(Message{.key = {"shop", id}, .topic = "order"});
    store.inbox().mark(Mark{.key = {"shop", id}, .as = MarkAs::dead, .error = "x"});
  }
  ServerOptions options = quiet_options();
  options.call_threads = 1;
  ApiUnderTest under_test(options, {{"main", store}}, clock);
  const auto holding = under_test.begin(get("/v1/messages/s/m"));
  stuck.wait_for_first_look();
  const std::string group = R"("group":"order:)" + error_fingerprint("x") + R"(","dryRun":true)";
  const auto groups = under_test.begin(get("/v1/dead/groups?maxMessages=1000000"));
  const auto plan = under_test.begin(post("/v1/dead/revive", "{" + group + R"(,"perSecond":1})"));
  const auto count = under_test.begin(post("/v1/dead/purge", "{" + group + "}"));
  for (const auto& exchange : {groups, plan, count}) exchange->go_away();
  stuck.let_go();
  // What they say nobody reads; it shows that they did not go on.
  EXPECT_EQ(json_of(groups->wait()).at("messages"), 0);
  EXPECT_EQ(json_of(groups->wait()).at("complete"), false);
  EXPECT_EQ(json_of(plan->wait()).at("count"), 0);
  EXPECT_EQ(json_of(count->wait()).at("count"), 0);
}

TEST(HealthRoute, WarnsOfAClockThatWentBackUntilItHasCaughtUp) {
  testing::FakeClock clock;
  memory::MemoryStore store(clock);
  ServerOptions options = quiet_options();
  options.watchdog.interval = Duration{1};
  ApiUnderTest under_test(options, {{"main", store}}, clock);
  store.inbox().enqueue({.key = {"shop", "m"}, .topic = "order.created"});
  clock.advance(-std::chrono::hours{1});
  (void)store.inbox().claim({.owner = OwnerToken::generate()});
  const auto health = [&] { return json::serialize(json_of(under_test.call(get("/v1/health")))); };
  EXPECT_TRUE(eventually([&] { return health().find("clock went back") != std::string::npos; }));
  clock.advance(std::chrono::hours{1});
  EXPECT_TRUE(eventually([&] { return health().find("clock went back") == std::string::npos; }));
}

/// A watchdog that hardly rests.
class HealthRouteTest : public ApiTest {
 protected:
  HealthRouteTest() : ApiTest(options()) {}
  static ServerOptions options() {
    ServerOptions options = quiet_options();
    options.watchdog.interval = Duration{1};
    return options;
  }
  [[nodiscard]] json::value health() { return json_of(call(get("/v1/health"))); }
};
ONCEBOX_OVER_EACH_STORE(HealthRouteTest);

TEST_P(HealthRouteTest, IsDegradedWithTheReasonWhileSomethingIsWrong) {
  EXPECT_TRUE(eventually([&] { return health().at("stores").as_array().size() == 2; }));
  EXPECT_EQ(health().at("status"), "Healthy");
  EXPECT_EQ(health().at("stores").at(0), json::parse(R"({"name":"first","health":"Healthy"})"));
  enqueue("m", "order.created");
  clock_.advance(std::chrono::hours{1});
  // A look during which the clock was moved seems slow: there may be another finding for a while.
  json::value finding;
  ASSERT_TRUE(eventually([&] {
    const json::value report = health();
    for (const json::value& found : report.at("findings").as_array()) {
      if (found.at("code") != "ReadyLate") continue;
      EXPECT_EQ(report.at("status"), "Degraded");
      finding = found;
      return true;
    }
    return false;
  }));
  EXPECT_EQ(finding.at("store"), "first");
  EXPECT_EQ(finding.at("queue"), "inbox");
  EXPECT_EQ(finding.at("topic"), "order.created");
  EXPECT_EQ(finding.at("since").as_string(), format_rfc3339(clock_.now() - std::chrono::hours{1}));
  EXPECT_TRUE(eventually([&] { return under_test_.api().readiness().degraded; }));
  EXPECT_TRUE(eventually([&] { return under_test_.api().readiness().ready; }))
      << "requests may still come";
  EXPECT_EQ(call(get("/v1/health?x=1")).status, 400);
  (void)claim();
  store_->inbox().mark(Mark{.key = {"shop", "m"}});
  EXPECT_TRUE(eventually([&] { return health().at("status") == "Healthy"; }));
}

TEST_P(HealthRouteTest, DeadMessagesAreLoggedByTheirGroup) {
  RecordProperty("requirement", "R-30");
  EXPECT_TRUE(eventually([&] { return health().at("stores").as_array().size() == 2; }));
  enqueue("m", "mail");
  store_->inbox().mark(Mark{.key = {"shop", "m"}, .as = MarkAs::dead, .error = "no such address"});
  EXPECT_TRUE(under_test_.logger().wait_for("messages are dead"));
}

}  // namespace
}  // namespace oncebox::server
