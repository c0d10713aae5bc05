#include <gtest/gtest.h>

#include "api_fixture.hpp"
#include "oncebox/audit_trail.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

class AuditRoutesTest : public ApiTest {
 protected:
  void bury(const std::string& id) {
    enqueue(id);
    store_->inbox().mark({.key = {"shop", id}, .as = MarkAs::dead, .error = "no"});
  }
  Response operate(const std::string& path, const std::string& body) {
    TestCall call = post(path, body);
    call.principal = "ops";
    return this->call(call);
  }
  /// The entry that was written last.
  [[nodiscard]] json::value last(const std::string& store = "") {
    return json_of(call(get("/v1" + store + "/audit?limit=1"))).at("entries").at(0);
  }
  [[nodiscard]] std::size_t entries() { return store_->audit().list().records.size(); }
};
ONCEBOX_OVER_EACH_STORE(AuditRoutesTest);

TEST_P(AuditRoutesTest, RevivalLeavesWhoWhatWhyAndHowItEnded) {
  RecordProperty("requirement", "R-30");
  bury("a");
  operate("/v1/dead/revive", R"({"keys":[{"source":"shop","messageId":"a"},
      {"source":"shop","messageId":"none"}],"reason":"fixed"})");
  const json::value entry = last();
  EXPECT_EQ(entry.at("actor"), "ops");
  EXPECT_EQ(entry.at("action"), "Revive");
  EXPECT_EQ(entry.at("part"), "Inbox");
  EXPECT_EQ(entry.at("reason"), "fixed");
  EXPECT_EQ(entry.at("subject"), R"({"count":2,"keys":[{"source":"shop","messageId":"a"},)"
                                 R"({"source":"shop","messageId":"none"}]})");
  EXPECT_EQ(entry.at("status"), "Succeeded");
  EXPECT_EQ(entry.at("changed"), 1);
  EXPECT_EQ(entries(), 1U);
}

TEST_P(AuditRoutesTest, EnqueueThatRevivesLeavesTheSameTrace) {
  const auto message = [](const std::string& id) {
    return R"({"source":"shop","messageId":")" + id + R"(","topic":"t","payload":1})";
  };
  for (const char* id : {"single", "array", "line"}) bury(id);
  EXPECT_EQ(operate("/v1/messages?onDead=Revive", message("single")).status, 200);
  EXPECT_EQ(entries(), 1U);
  const json::value entry = last();
  EXPECT_EQ(entry.at("actor"), "ops");
  EXPECT_EQ(entry.at("action"), "Revive");
  EXPECT_EQ(entry.at("part"), "Inbox");
  EXPECT_EQ(entry.at("subject"), R"({"count":1,"keys":[{"source":"shop","messageId":"single"}]})");
  EXPECT_EQ(entry.at("status"), "Succeeded");
  EXPECT_EQ(entry.at("changed"), 1);

  operate("/v1/messages?onDead=Revive", "[" + message("array") + "," + message("new") + "]");
  EXPECT_EQ(entries(), 2U);
  EXPECT_EQ(last().at("changed"), 1);
  TestCall lines = post("/v1/messages?onDead=Revive", message("line") + "\n");
  lines.fields = {{"Content-Type", "application/x-ndjson"}};
  EXPECT_EQ(json_of(call(lines)).at("revived"), 1);
  EXPECT_EQ(entries(), 3U);
  operate("/v1/outbox/messages?onDead=Revive", message("out"));
  EXPECT_EQ(last().at("part"), "Outbox");
  EXPECT_EQ(last().at("changed"), 0);
  operate("/v1/messages?onDead=Keep", message("single"));
  EXPECT_EQ(entries(), 4U);
}

TEST_P(AuditRoutesTest, EnqueueThatRevivesNeedsTheScopeOfARevival) {
  bury("a");
  const std::string message = R"({"source":"shop","messageId":"a","topic":"t","payload":1})";
  for (const char* path : {"/v1/messages?onDead=Revive", "/v1/stores/second/messages?onDead=Revive",
                           "/v1/outbox/messages?onDead=Revive"}) {
    for (const char* type : {"application/json", "application/x-ndjson"}) {
      for (const std::string& body : {message, "[" + message + "]"}) {
        TestCall call = post(path, body);
        call.fields = {{"Content-Type", type}};
        call.scopes = bit_of(Scope::produce);
        const Response response = this->call(call);
        EXPECT_EQ(response.status, 403) << path << " " << type;
        EXPECT_NE(problem_detail(response).find("the scope operate"), std::string::npos);
      }
    }
  }
  EXPECT_EQ(record("a").status, Status::dead);
  EXPECT_EQ(entries(), 0U);
  TestCall keeps = post("/v1/messages?onDead=Keep", message);
  keeps.scopes = bit_of(Scope::produce);
  EXPECT_EQ(call(keeps).status, 200);
}

TEST_P(AuditRoutesTest, EveryChangeOfAnOperatorIsThere) {
  bury("a");
  bury("b");
  struct Case {
    std::string path;
    std::string body;
    std::string action;
    std::string part;
    int changed;
  };
  const std::vector<Case> cases{
      {"/v1/dead/revive", R"({"filter":{"topic":"order.*"},"limit":1,"reason":"why"})", "Revive",
       "Inbox", 1},
      {"/v1/dead/edit",
       R"({"items":[{"source":"shop","messageId":"b","payload":"secret"}],"reason":"why"})",
       "ReviveEdited", "Inbox", 1},
      {"/v1/dead/revive", R"({"group":"order:0123456789abcdef","reason":"why"})", "Revive", "Inbox",
       0},
      {"/v1/dead/revive", R"({"all":true,"perSecond":1,"reason":"why"})", "Revive", "Inbox", 0},
      {"/v1/dead/purge", R"({"group":"order:0123456789abcdef","reason":"why"})", "Purge", "Inbox",
       0},
      {"/v1/outbox/dead/purge", R"({"all":true,"reason":"why"})", "Purge", "Outbox", 0},
      {"/v1/dead/purge", R"({"keys":[{"source":"shop","messageId":"x"}],"reason":"why"})", "Purge",
       "Inbox", 0},
      {"/v1/messages/cancel", R"({"filter":{"topic":"mail"},"reason":"why"})", "Cancel", "Inbox",
       0},
      {"/v1/messages/run-now", R"({"all":true,"reason":"why"})", "RunNow", "Inbox", 0},
      {"/v1/messages/reschedule",
       R"({"all":true,"dueAt":"2030-01-01T00:00:00.000Z","reason":"why"})", "Reschedule", "Inbox",
       2},
      {"/v1/outbox/messages/delete", R"({"all":true,"reason":"why"})", "Delete", "Outbox", 0},
      {"/v1/cleanup", R"({"doneRetentionSeconds":1,"reason":"why"})", "Cleanup", "Inbox", 0},
      {"/v1/topics/pause", R"({"topic":"order.*","reason":"why"})", "Pause", "Inbox", 1},
      {"/v1/topics/resume", R"({"topic":"order.*","reason":"why"})", "Resume", "Inbox", 1},
      {"/v1/topics/resume", R"({"topic":"order.*","reason":"why"})", "Resume", "Inbox", 0},
      {"/v1/topics/policies", R"({"topic":"order.*","paused":null,"reason":"why"})", "Resume",
       "Inbox", 0},
      {"/v1/topics/policies", R"({"topic":"t","maxAttempts":3,"reason":"why"})", "SetPolicy",
       "Inbox", 1},
      {"/v1/topics/policies", R"({"topic":"t","maxAttempts":3,"reason":"why"})", "SetPolicy",
       "Inbox", 0},
      {"/v1/audit/cleanup", R"({"retentionSeconds":86400,"reason":"why"})", "Cleanup", "AuditTrail",
       0},
  };
  std::size_t expected = 0;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.path);
    EXPECT_EQ(operate(one.path, one.body).status, 200);
    const json::value entry = last();
    EXPECT_EQ(entry.at("actor"), "ops");
    EXPECT_EQ(entry.at("action").as_string(), one.action);
    EXPECT_EQ(entry.at("part").as_string(), one.part);
    EXPECT_EQ(entry.at("reason"), "why");
    EXPECT_EQ(entry.at("status"), "Succeeded");
    EXPECT_EQ(entry.at("changed"), one.changed);
    EXPECT_EQ(json::serialize(entry).find("secret"), std::string::npos) << "never a payload";
    EXPECT_EQ(entries(), ++expected);
  }
  operate("/v1/keys/cleanup", "");
  EXPECT_EQ(last().at("part"), "Keys");
}

TEST_P(AuditRoutesTest, ChangeOfARuleSaysWhatChanged) {
  operate("/v1/topics/policies", R"({"topic":"order.*","maxAttempts":5,"rate":null})");
  EXPECT_EQ(last().at("subject"), R"({"topic":"order.*","maxAttempts":5,"rate":null})");
  operate("/v1/topics/pause", R"({"topic":"order.*","reason":"why"})");
  EXPECT_EQ(last().at("subject"), R"({"topic":"order.*","paused":true})");
  operate("/v1/topics/policies/remove", R"({"topic":"order.*"})");
  EXPECT_EQ(last().at("subject"), R"({"topic":"order.*","removed":true})");
}

TEST_P(AuditRoutesTest, LooksAndDryRunsAndWhatIsRefusedLeaveNoTrace) {
  bury("a");
  operate("/v1/dead/revive", R"({"all":true,"dryRun":true})");
  operate("/v1/dead/purge", R"({"all":true,"dryRun":true})");
  operate("/v1/dead/revive", R"({"all":true,"perSecond":1,"dryRun":true})");
  operate("/v1/dead/purge", "{}");
  operate("/v1/dead/revive", R"({"all":true,"limit":0})");
  operate("/v1/topics/pause", "{}");
  (void)call(get("/v1/dead"));
  EXPECT_EQ(entries(), 0U);
}

TEST_P(AuditRoutesTest, ChangeThatFailsSaysSo) {
  bury("a");
  EXPECT_EQ(operate("/v1/dead/revive", R"({"all":true,"delaySeconds":40000000})").status, 400);
  const json::value entry = last();
  EXPECT_EQ(entry.at("status"), "Failed");
  EXPECT_TRUE(entry.as_object().contains("detail"));
  EXPECT_EQ(entry.at("changed"), 0);
}

TEST_P(AuditRoutesTest, CleanupOfTheWholeTrailLeavesItsOwnTrace) {
  operate("/v1/cleanup", "{}");
  EXPECT_EQ(json_of(operate("/v1/audit/cleanup", R"({"retentionSeconds":0})")),
            json::parse(R"({"count":1})"));
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(last().at("part"), "AuditTrail");
  EXPECT_EQ(last().at("changed"), 1);
}

TEST_P(AuditRoutesTest, StoresHaveTrailsOfTheirOwnThatAreListedPageByPage) {
  for (int i = 0; i < 3; ++i) operate("/v1/stores/second/cleanup", "{}");
  EXPECT_EQ(entries(), 0U);
  EXPECT_EQ(last("/stores/second").at("action"), "Cleanup");
  const json::value first = json_of(call(get("/v1/stores/second/audit?limit=2")));
  ASSERT_EQ(first.at("entries").as_array().size(), 2U);
  const std::string next = first.at("next").as_string().c_str();
  const json::value second = json_of(call(get("/v1/stores/second/audit?limit=2&after=" + next)));
  EXPECT_EQ(second.at("entries").as_array().size(), 1U);
  EXPECT_FALSE(second.as_object().contains("next"));
  const auto count = [&](const std::string& query) {
    return json_of(call(get("/v1/stores/second/audit?" + query))).at("entries").as_array().size();
  };
  EXPECT_EQ(count("actor=ops&action=Purge,Cleanup"), 3U);
  EXPECT_EQ(count("actor=nobody"), 0U);
  EXPECT_EQ(count("action=Pause"), 0U);
  for (const std::string query : {"action=Nope", "limit=0", "limit=x", "x=1", "from=then"}) {
    EXPECT_EQ(call(get("/v1/audit?" + query)).status, 400) << query;
  }
  clock_.advance(std::chrono::hours{2});
  EXPECT_EQ(json_of(operate("/v1/stores/second/audit/cleanup", R"({"retentionSeconds":3600})")),
            json::parse(R"({"count":3})"));
  EXPECT_EQ(operate("/v1/audit/cleanup?x=1", "").status, 400);
}

}  // namespace

}  // namespace oncebox::server
