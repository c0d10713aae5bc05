#include <gtest/gtest.h>

#include "api_fixture.hpp"
#include "oncebox/error.hpp"
#include "oncebox/wire/queue_json.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

class WorkRoutes : public ApiTest {
 protected:
  /// Settles each message of a claim's answer in the same way.
  json::value settle_all(const json::value& claimed, const json::object& verdict) {
    json::array items;
    for (const json::value& message : claimed.at("messages").as_array()) {
      json::object item = verdict;
      item["source"] = message.at("source");
      item["messageId"] = message.at("messageId");
      item["delivery"] = message.at("delivery");
      items.push_back(std::move(item));
    }
    const Response response =
        call(post("/v1/messages/settle",
                  json::serialize(json::object{{"owner", claimed.at("owner")}, {"items", items}})));
    EXPECT_EQ(response.status, 200) << response.body;
    return json_of(response);
  }
};
ONCEBOX_OVER_EACH_STORE(WorkRoutes);

TEST_P(WorkRoutes, ClaimHandsOutWholeMessagesAndSettleEndsThem) {
  enqueue("m1");
  enqueue("m2");
  const json::value claimed = claim();
  ASSERT_EQ(claimed.at("messages").as_array().size(), 2U);
  EXPECT_EQ(claimed.at("messages").at(0).at("payload"), json::parse(R"({"id":"m1"})"));
  EXPECT_TRUE(claimed.at("owner").is_string());
  EXPECT_EQ(settle_all(claimed, {{"verdict", "Ack"}}),
            json::parse(R"({"results":[{"status":"Settled"},{"status":"Settled"}]})"));
  EXPECT_EQ(record("m1").status, Status::done);
  EXPECT_TRUE(claim().at("messages").as_array().empty());
  EXPECT_EQ(settle_all(claimed, {{"verdict", "Ack"}}),
            json::parse(R"({"results":[{"status":"LeaseLost"},{"status":"LeaseLost"}]})"));
}

TEST_P(WorkRoutes, WorkersAreShownByName) {
  RecordProperty("requirement", "R-32");
  enqueue("m1");
  enqueue("m2");
  ASSERT_EQ(call(post("/v1/messages/claim", R"({"worker":"shop-3:8124","limit":1})")).status, 200);
  ASSERT_EQ(call(post("/v1/messages/claim", R"({"limit":1})")).status, 200);
  const std::string now = format_rfc3339(clock_.now());
  const json::value leased = json_of(call(get("/v1/messages/shop/m1")));
  EXPECT_EQ(leased.at("worker"), "shop-3:8124");
  EXPECT_EQ(leased.at("leasedAt").as_string(), now);
  const json::value workers = json_of(call(get("/v1/workers"))).at("workers");
  ASSERT_EQ(workers.as_array().size(), 2U);
  EXPECT_EQ(workers.at(0).at("name"), "anonymous") << "the caller's name, not the server's";
  const json::object holder{
      {"name", "shop-3:8124"}, {"leases", 1}, {"since", now}, {"lastSeen", now}};
  EXPECT_EQ(workers.at(1), holder);
  EXPECT_EQ(json_of(call(get("/v1/outbox/workers"))), json::parse(R"({"workers":[]})"));
  const std::string long_name(101, 'x');
  EXPECT_EQ(call(post("/v1/messages/claim", R"({"worker":")" + long_name + "\"}")).status, 400);
  EXPECT_EQ(call(post("/v1/messages/claim", R"({"worker":""})")).status, 400);
}

TEST_P(WorkRoutes, AMessageTellsItsAttempts) {
  RecordProperty("requirement", "R-32");
  enqueue("m1");
  const json::value claimed =
      json_of(call(post("/v1/messages/claim", R"({"worker":"shop-3:8124"})")));
  const std::string begun = format_rfc3339(clock_.now());
  clock_.advance(std::chrono::seconds{1});
  settle_all(claimed, {{"verdict", "Fail"}, {"error", "no order"}, {"errorKind", "NotFound"}});
  const json::object expected{{"number", 1},         {"worker", "shop-3:8124"},
                              {"begunAt", begun},    {"endedAt", format_rfc3339(clock_.now())},
                              {"outcome", "Failed"}, {"errorKind", "NotFound"},
                              {"error", "no order"}};
  EXPECT_EQ(json_of(call(get("/v1/messages/shop/m1"))).at("attempts").at(0), expected);
  EXPECT_EQ(json_of(call(get("/v1/dead/shop/m1"))).at("attempts").at(0), expected);
  const json::value listed = json_of(call(get("/v1/dead"))).at("messages").at(0);
  EXPECT_FALSE(listed.as_object().contains("attempts"));
}

TEST_P(WorkRoutes, SettleTakesAMixedBatch) {
  for (const char* id : {"ack", "abandon", "fail", "release"}) enqueue(id);
  const json::value claimed = claim();
  const std::string owner = claimed.at("owner").as_string().c_str();
  const Response response =
      call(post("/v1/messages/settle", R"({"owner":")" + owner + R"(","items":[
      {"source":"shop","messageId":"ack","verdict":"Ack"},
      {"source":"shop","messageId":"abandon","verdict":"Abandon","error":"later","delaySeconds":5},
      {"source":"shop","messageId":"fail","verdict":"Fail","error":"never"},
      {"source":"shop","messageId":"release","verdict":"Release"}]})"));
  ASSERT_EQ(response.status, 200) << response.body;
  const json::value results = json_of(response).at("results");
  EXPECT_EQ(results.at(0), json::parse(R"({"status":"Settled"})"));
  EXPECT_EQ(results.at(1).at("againAt").as_string(),
            format_rfc3339(clock_.now() + std::chrono::seconds{5}));
  EXPECT_EQ(results.at(2), json::parse(R"({"status":"Settled","death":"Failed"})"));
  EXPECT_EQ(results.at(3).at("againAt").as_string(), format_rfc3339(clock_.now()));
  EXPECT_EQ(record("ack").status, Status::done);
  EXPECT_EQ(record("abandon").history.attempt, 1);
  EXPECT_EQ(record("fail").status, Status::dead);
  EXPECT_EQ(record("fail").history.last_error, "never");
  EXPECT_EQ(claim().at("messages").at(0).at("messageId"), "release");
}

TEST_P(WorkRoutes, AttemptsEndByTheQueuesPolicy) {
  RecordProperty("requirement", "R-11,R-31,IBX-083,IBX-084");
  enqueue("m");
  const json::object abandon{{"verdict", "Abandon"}, {"error", "boom"}, {"delaySeconds", 1}};
  for (int attempt = 1; attempt < defaults::kMaxAttempts; ++attempt) {
    const json::value settled = settle_all(claim(), abandon);
    ASSERT_TRUE(settled.at("results").at(0).as_object().contains("againAt")) << settled;
    clock_.advance(std::chrono::seconds{1});
  }
  EXPECT_EQ(
      settle_all(claim(), abandon),
      json::parse(R"({"results":[{"status":"Settled","death":"Attempts","policy":"Queue"}]})"));
  EXPECT_EQ(record("m").status, Status::dead);
  EXPECT_EQ(record("m").history.attempt, defaults::kMaxAttempts);
}

TEST_P(WorkRoutes, AClaimTellsWhereAttemptsEnd) {
  RecordProperty("requirement", "R-31");
  enqueue("by the queue");
  const json::value of_queue = claim().at("messages").at(0);
  EXPECT_EQ(of_queue.at("maxAttempts"), defaults::kMaxAttempts);
  EXPECT_FALSE(of_queue.as_object().contains("giveUpAfterSeconds"));
  ASSERT_EQ(call(post("/v1/topics/policies",
                      R"({"topic":"*","maxAttempts":5,"giveUpAfterSeconds":3600})"))
                .status,
            200);
  enqueue("by a rule");
  const json::value of_rule = claim().at("messages").at(0);
  EXPECT_EQ(of_rule.at("maxAttempts"), 5);
  EXPECT_EQ(of_rule.at("giveUpAfterSeconds"), 3600);
}

TEST_P(WorkRoutes, TheLimitOfAWorkerIsItsOwn) {
  RecordProperty("requirement", "R-31");
  enqueue("m");
  EXPECT_EQ(
      settle_all(claim(), {{"verdict", "Abandon"}, {"maxAttempts", 1}}),
      json::parse(R"({"results":[{"status":"Settled","death":"Attempts","policy":"Worker"}]})"));
  for (const char* bad :
       {R"("verdict":"Ack","maxAttempts":1)", R"("verdict":"Fail","maxAttempts":1)",
        R"("verdict":"Abandon","maxAttempts":0)",
        R"("verdict":"Abandon","giveUpAfterSeconds":1)"}) {
    const Response response =
        call(post("/v1/messages/settle", R"({"owner":"0190a0b0-0000-7000-8000-000000000001",)"
                                         R"("items":[{"source":"shop","messageId":"m",)" +
                                             std::string(bad) + "}]}"));
    EXPECT_EQ(response.status, 400) << bad << response.body;
  }
}

TEST_P(WorkRoutes, NewContentForAHeldMessageSupersedesItsSettlement) {
  enqueue("m");
  const json::value claimed = claim();
  ASSERT_EQ(json_of(call(post("/v1/messages",
                              R"({"source":"shop","messageId":"m","topic":"order.created",
                                  "payload":"other"})")))
                .at("status"),
            "Superseding");
  EXPECT_EQ(
      settle_all(claimed, {{"verdict", "Ack"}}),
      (json::object{
          {"results", {{{"status", "Superseded"}, {"againAt", format_rfc3339(clock_.now())}}}}}));
}

TEST_P(WorkRoutes, ClaimTakesOnlyTheTopicsItAsksFor) {
  enqueue("a", "order.paid");
  enqueue("b", "mail.sent");
  const Response response = call(post("/v1/messages/claim", R"({"topics":{"only":["mail.*"]}})"));
  const json::value claimed = json_of(response);
  ASSERT_EQ(claimed.at("messages").as_array().size(), 1U);
  EXPECT_EQ(claimed.at("messages").at(0).at("messageId"), "b");
}

TEST_P(WorkRoutes, ClaimRefusesWhatIsOutOfRange) {
  for (const std::string body :
       {R"({"limit":0})", R"({"limit":10001})", R"({"leaseSeconds":0})",
        R"({"leaseSeconds":86401})", R"({"waitSeconds":61})", R"({"waitSeconds":-1})",
        R"({"maxDeliveries":3})", R"({"maxBytes":0})", R"({"maxBytes":99999999999})",
        R"({"owner":"nobody"})", R"({"waits":1})", R"([])", R"({"topics":{"only":[""]}})"}) {
    const Response response = call(post("/v1/messages/claim", body));
    EXPECT_EQ(response.status, 400) << body << " " << response.body;
  }
}

TEST_P(WorkRoutes, ExtendProlongsALeaseAndTellsOfALostOne) {
  enqueue("m");
  const json::value claimed = claim();
  const std::string owner = claimed.at("owner").as_string().c_str();
  const std::string body = R"({"owner":")" + owner +
                           R"(","items":[{"source":"shop","messageId":"m","leaseSeconds":120},
                               {"source":"shop","messageId":"none","leaseSeconds":120}]})";
  const json::value extended = json_of(call(post("/v1/messages/extend", body)));
  EXPECT_EQ(extended.at("results").at(0).at("lockedUntil"),
            format_rfc3339(clock_.now() + std::chrono::seconds{120}).c_str());
  EXPECT_EQ(extended.at("results").at(1), json::parse(R"({"status":"LeaseLost"})"));
}

TEST_P(WorkRoutes, ObserveAndMarkServeThoseWhoHandleMessagesThemselves) {
  const std::string observe = R"({"items":[{"source":"shop","messageId":"m"}]})";
  EXPECT_EQ(json_of(call(post("/v1/messages/observe", observe))).at("results").at(0).at("state"),
            "Unseen");
  EXPECT_EQ(json_of(call(post("/v1/messages/observe", observe))).at("results").at(0).at("state"),
            "Seen");
  EXPECT_EQ(json_of(call(post("/v1/messages/mark",
                              R"({"items":[{"source":"shop","messageId":"m","as":"Processed"},
                                  {"source":"shop","messageId":"x","as":"Processed"}]})"))),
            json::parse(R"({"results":["Marked","Unknown"]})"));
  EXPECT_EQ(json_of(call(post("/v1/messages/observe", observe))).at("results").at(0).at("state"),
            "Done");
}

TEST_P(WorkRoutes, FindAnswersEachKeyOrNull) {
  enqueue("m");
  const json::value found = json_of(call(
      post("/v1/messages/find",
           R"({"keys":[{"source":"shop","messageId":"m"},{"source":"shop","messageId":"x"}]})")));
  EXPECT_EQ(found.at("results").at(0).at("messageId"), "m");
  EXPECT_TRUE(found.at("results").at(1).is_null());
}

TEST_P(WorkRoutes, FindAnswersNoMoreThanAClaimAndSaysSo) {
  for (const char* id : {"a", "b", "c"}) {
    store_->inbox().enqueue(
        {.key = {"shop", id}, .topic = "t", .payload = std::string(std::size_t{7} << 20, 'x')});
  }
  const auto key = [](const std::string& id) {
    return R"({"source":"shop","messageId":")" + id + R"("})";
  };
  std::string repeated = key("a");
  for (int i = 1; i < 200; ++i) repeated += "," + key("a");
  json::value found = json_of(call(post("/v1/messages/find", R"({"keys":[)" + repeated + "]}")));
  EXPECT_EQ(found.at("results").as_array().size(), 2U);
  EXPECT_EQ(found.at("truncated"), true);

  const std::string all = key("a") + "," + key("b") + "," + key("c");
  found = json_of(call(post("/v1/messages/find", R"({"keys":[)" + all + "]}")));
  EXPECT_EQ(found.at("results").as_array().size(), 2U);
  EXPECT_EQ(found.at("truncated"), true);
  found = json_of(call(post("/v1/messages/find", R"({"keys":[)" + key("c") + "]}")));
  EXPECT_EQ(found.at("results").as_array().size(), 1U);
  EXPECT_FALSE(found.as_object().contains("truncated"));
  found = json_of(call(post("/v1/messages/find", R"({"keys":[)" + all + R"(],"payloads":false})")));
  EXPECT_EQ(found.at("results").as_array().size(), 3U);
  EXPECT_FALSE(found.at("results").at(0).as_object().contains("payload"));
  EXPECT_EQ(call(post("/v1/messages/find", R"({"keys":[)" + all + R"(],"maxBytes":0})")).status,
            400);
}

TEST_P(WorkRoutes, GetAnswersOneMessageWhateverIsInItsName) {
  ASSERT_EQ(call(post("/v1/messages",
                      R"({"source":"a b","messageId":"x/y:ü","topic":"t","payload":[1, 2]})"))
                .status,
            200);
  const Response response = call(get("/v1/messages/a%20b/x%2Fy%3A%C3%BC"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json_of(response).at("status"), "Processing");
  EXPECT_EQ(json_of(response).at("payload"), json::parse("[1,2]"));
  const Response missing = call(get("/v1/messages/a%20b/none"));
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(problem_code(missing), "not_found");
}

TEST_P(WorkRoutes, ReapEndsLapsedLeases) {
  enqueue("m");
  (void)claim();
  clock_.advance(defaults::kLease);
  EXPECT_EQ(json_of(call(post("/v1/messages/reap", ""))),
            json::parse(R"({"released":1,"buried":0,"deaths":[]})"));
  EXPECT_EQ(json_of(call(post("/v1/messages/reap", R"({"limit":5})"))),
            json::parse(R"({"released":0,"buried":0,"deaths":[]})"));
}

TEST_P(WorkRoutes, AClaimTellsWhatItBuried) {
  RecordProperty("requirement", "R-33");
  EXPECT_EQ(claim().as_object().contains("reaped"), false);
  const std::string expiry = format_rfc3339(clock_.now() + std::chrono::seconds{1});
  ASSERT_EQ(call(post("/v1/messages", R"({"source":"shop","messageId":"m","topic":"t",)"
                                      R"("payload":"","expiresAt":")" +
                                          expiry + R"("})"))
                .status,
            200);
  clock_.advance(std::chrono::seconds{1});
  const json::value claimed = claim();
  EXPECT_TRUE(claimed.at("messages").as_array().empty());
  EXPECT_EQ(claimed.at("reaped"),
            json::parse(R"({"released":0,"buried":1,"deaths":[{"source":"shop",)"
                        R"("messageId":"m","topic":"t","error":"expired"}]})"));
}

TEST_P(WorkRoutes, NextDueTellsWhenSomethingCanBeClaimed) {
  EXPECT_EQ(json_of(call(post("/v1/messages/next-due", "{}"))), json::parse(R"({"dueAt":null})"));
  const std::string due = format_rfc3339(clock_.now() + std::chrono::hours{1});
  ASSERT_EQ(
      call(post("/v1/messages", R"({"topic":"t","payload":"","dueAt":")" + due + R"("})")).status,
      200);
  EXPECT_EQ(json_of(call(post("/v1/messages/next-due", ""))).at("dueAt"), due.c_str());
  EXPECT_TRUE(json_of(call(post("/v1/messages/next-due", R"({"topics":{"only":["other"]}})")))
                  .at("dueAt")
                  .is_null());
}

TEST_P(WorkRoutes, EveryCallRefusesBadBodiesOtherTypesAndUnknownParameters) {
  for (const std::string path :
       {"/v1/messages/claim", "/v1/messages/settle", "/v1/messages/extend", "/v1/messages/observe",
        "/v1/messages/mark", "/v1/messages/find", "/v1/messages/reap", "/v1/messages/next-due",
        "/v1/messages/count", "/v1/outbox/messages/settle"}) {
    EXPECT_EQ(call(post(path, "nonsense")).status, 400) << path;
    EXPECT_EQ(call(post(path, R"({"bogus":1})")).status, 400) << path;
    EXPECT_EQ(call(post(path + "?x=1", "{}")).status, 400) << path;
    TestCall other = post(path, "{}");
    other.fields = {{"Content-Type", "text/csv"}};
    EXPECT_EQ(call(other).status, 415) << path;
    other.fields = {{"Content-Type", "application/x-ndjson"}};
    EXPECT_EQ(call(other).status, 415) << path;
  }
}

TEST_P(WorkRoutes, ACallOfTooManyItemsIsRefused) {
  std::string keys;
  for (std::size_t i = 0; i <= limits::kMaxBatchItems; ++i) {
    keys += R"({"source":"s","messageId":"m"},)";
  }
  keys.pop_back();
  EXPECT_EQ(call(post("/v1/messages/find", R"({"keys":[)" + keys + "]}")).status, 400);
}

TEST_P(WorkRoutes, TheOutboxIsAQueueOfItsOwn) {
  ASSERT_EQ(call(post("/v1/outbox/messages",
                      R"({"source":"s","messageId":"m","topic":"t","payload":""})"))
                .status,
            200);
  EXPECT_TRUE(claim().at("messages").as_array().empty());
  const json::value claimed = json_of(call(post("/v1/outbox/messages/claim", "{}")));
  ASSERT_EQ(claimed.at("messages").as_array().size(), 1U);
  const std::string owner = claimed.at("owner").as_string().c_str();
  EXPECT_EQ(
      json_of(call(post("/v1/outbox/messages/settle",
                        R"({"items":[{"source":"s","messageId":"m","verdict":"Ack","owner":")" +
                            owner + R"("}]})"))),
      json::parse(R"({"results":[{"status":"Settled"}]})"));
  EXPECT_EQ(json_of(call(get("/v1/outbox/messages/s/m"))).at("status"), "Done");
}

}  // namespace

}  // namespace oncebox::server
