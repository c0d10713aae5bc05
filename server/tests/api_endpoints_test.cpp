#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "api_fixture.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

class EndpointRoutesTest : public ApiTest {
 protected:
  Response save(const std::string& body) { return call(post("/v1/endpoints", body)); }
  [[nodiscard]] json::value list(const std::string& query = "") {
    return json_of(call(get("/v1/endpoints" + query)));
  }
  static constexpr const char* kCrm =
      R"({"name":"crm","url":"https://crm.example","topics":["order.*"],)"
      R"("secrets":["literal:whsec_Zmlyc3Qtc2VjcmV0"]})";
};
ONCEBOX_OVER_EACH_STORE(EndpointRoutesTest);

TEST_P(EndpointRoutesTest, AreSavedListedWithoutSecretsAndRemoved) {
  EXPECT_EQ(json_of(save(kCrm)).at("status"), "Created");
  EXPECT_EQ(json_of(save(kCrm)).at("status"), "Unchanged");
  const json::value shown = list();
  EXPECT_EQ(shown.at("endpoints").at(0).at("name"), "crm");
  EXPECT_FALSE(shown.at("endpoints").at(0).as_object().contains("secrets"));
  EXPECT_EQ(list("?secrets=Include").at("endpoints").at(0).at("secrets").at(0),
            "literal:whsec_Zmlyc3Qtc2VjcmV0");
  const std::string version = json::serialize(shown.at("version"));
  EXPECT_FALSE(list("?knownVersion=" + version).as_object().contains("endpoints"));
  EXPECT_EQ(json_of(call(get("/v1/deliveries/topics/policies")))
                .at("policies")
                .at(0)
                .at("maxConcurrency"),
            4);
  EXPECT_EQ(json_of(call(post("/v1/endpoints/remove", R"({"name":"crm"})"))).at("count"), 1);
  EXPECT_EQ(json_of(call(post("/v1/endpoints/remove", R"({"name":"crm"})"))).at("count"), 0);
  EXPECT_TRUE(list().at("endpoints").as_array().empty());
}

TEST_P(EndpointRoutesTest, LeaveTheirTraceWithoutSecrets) {
  TestCall saved = post("/v1/endpoints", kCrm);
  saved.principal = "ops";
  call(saved);
  call(post("/v1/endpoints/note", R"({"name":"crm","event":"Failed"})"));
  const json::value entries = json_of(call(get("/v1/audit"))).at("entries");
  ASSERT_EQ(entries.as_array().size(), 1U) << "what a dispatcher notes is not by hand";
  EXPECT_EQ(entries.at(0).at("actor"), "ops");
  EXPECT_EQ(entries.at(0).at("action"), "SetEndpoint");
  EXPECT_EQ(entries.at(0).at("part"), "Endpoints");
  EXPECT_EQ(json::serialize(entries).find("whsec"), std::string::npos);
}

TEST_P(EndpointRoutesTest, NotesTellWhetherTheyChangedAnything) {
  save(kCrm);
  const std::string disable = R"({"name":"crm","event":"Disabled","reason":"moving"})";
  const json::value first = json_of(call(post("/v1/endpoints/note", disable)));
  EXPECT_EQ(first.at("changed"), true);
  EXPECT_EQ(first.at("disabledReason"), "moving");
  EXPECT_EQ(json_of(call(post("/v1/endpoints/note", disable))).at("changed"), false);
  const json::value none =
      json_of(call(post("/v1/endpoints/note", R"({"name":"none","event":"Enabled"})")));
  EXPECT_EQ(none.at("known"), false);
}

TEST_P(EndpointRoutesTest, TakeNeitherFilesNorVariablesOfTheServer) {
  for (const char* const secret : {"env:ONCEBOX_TOKENS", "file:/etc/passwd", "whsec_AAAA"}) {
    const Response response =
        save(R"({"name":"crm","url":"oncebox+https://evil.example/v1","secrets":[")" +
             std::string(secret) + R"("]})");
    EXPECT_EQ(response.status, 400) << secret;
  }
  EXPECT_EQ(save(R"({"name":"crm","url":"https://crm.example","secrets":[]})").status, 400)
      << "a webhook is signed";
  EXPECT_TRUE(list().at("endpoints").as_array().empty());
}

TEST_P(EndpointRoutesTest, OneToWhichNothingHerePublishesIsRefused) {
  const Response unknown = save(R"({"name":"bus","url":"amqp://bus.example/orders"})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_NE(problem_detail(unknown).find("amqp://"), std::string::npos);
  EXPECT_EQ(save(R"({"name":"other","url":"oncebox+https://other.example/v1",)"
                 R"("headers":{"Content-Type":"text/plain"}})")
                .status,
            400);
}

TEST_P(EndpointRoutesTest, ATestIsADeliveryOfItsOwn) {
  save(kCrm);
  const json::value sent = json_of(call(post("/v1/endpoints/crm/test", "")));
  const std::string id = json::value_to<std::string>(sent.at("messageId"));
  EXPECT_TRUE(id.ends_with("@crm")) << id;
  const Response shown = call(get("/v1/deliveries/messages/oncebox/" + id));
  EXPECT_EQ(json_of(shown).at("topic"), "crm");
  const auto record = store_->deliveries().find(MessageKey{"oncebox", MessageId(id)});
  ASSERT_TRUE(record && record->message);
  EXPECT_EQ(record->message->expires_at, clock_.now() + 30s);
  EXPECT_EQ(call(post("/v1/endpoints/crm/test", R"({"waitSeconds":7200})")).status, 400);
  EXPECT_EQ(call(post("/v1/endpoints/none/test", "")).status, 404);
}

/// With an endpoint that wants orders, and an outbox of which everything is done.
class ResendRouteTest : public EndpointRoutesTest {
 protected:
  ResendRouteTest() {
    save(kCrm);
    for (const char* const id : {"1", "2", "3"}) put(id, "order.paid");
    put("4", "mail.sent");
  }
  void put(const std::string& id, const std::string& topic) {
    const MessageKey key{"shop", MessageId(id)};
    store_->outbox().enqueue(Message{.key = key, .topic = Topic(topic), .payload = "{}"});
    store_->outbox().mark({.key = key, .as = MarkAs::processed});
    clock_.advance(10s);
  }
  Response resend(const std::string& body, const std::string& endpoint = "crm") {
    return call(post("/v1/endpoints/" + endpoint + "/resend", body));
  }
  [[nodiscard]] std::optional<MessageRecord> delivery(const std::string& id) {
    return store_->deliveries().find(MessageKey{"shop", MessageId(id + "@crm")});
  }
  [[nodiscard]] json::array trail() {
    json::array resent;
    const json::value whole = json_of(call(get("/v1/audit")));
    for (const json::value& entry : whole.at("entries").as_array()) {
      if (entry.at("action") == "Resend") resent.push_back(entry);
    }
    return resent;
  }
};
ONCEBOX_OVER_EACH_STORE(ResendRouteTest);

TEST_P(ResendRouteTest, AllSinceATimeGoesOutAgainAtARate) {
  RecordProperty("requirement", "R-37");
  const std::string since = R"({"since":")" + format_rfc3339(clock_.now() - 35s) + R"(",)";
  EXPECT_EQ(resend(since + R"("dryRun":true})").body,
            R"({"count":2,"underWay":0,"notWanted":1,"dryRun":true})");
  EXPECT_FALSE(delivery("2"));
  EXPECT_TRUE(trail().empty());
  EXPECT_EQ(resend(since + R"("perSecond":2,"reason":"it was away"})").body,
            R"({"count":2,"underWay":0,"notWanted":1,"dryRun":false})");
  EXPECT_FALSE(delivery("1")) << "that was before";
  ASSERT_TRUE(delivery("2") && delivery("3"));
  EXPECT_EQ(*delivery("3")->message->due_at - *delivery("2")->message->due_at, 500ms);
  ASSERT_EQ(trail().size(), 1U);
  EXPECT_EQ(trail().at(0).at("reason"), "it was away");
  EXPECT_EQ(trail().at(0).at("changed"), 2);
  EXPECT_EQ(resend(since + R"("reason":"again"})").body,
            R"({"count":0,"underWay":2,"notWanted":1,"dryRun":false})");
}

TEST_P(ResendRouteTest, WhatFailedAndOneMessageGoOutAgain) {
  RecordProperty("requirement", "R-37");
  EXPECT_EQ(resend(R"({"source":"shop","messageId":"1"})").body,
            R"({"count":1,"underWay":0,"notWanted":0,"dryRun":false})");
  ASSERT_TRUE(delivery("1"));
  store_->deliveries().mark({.key = delivery("1")->key, .as = MarkAs::dead, .error = "gone"});
  EXPECT_EQ(resend(R"({"failed":true,"dryRun":true})").body,
            R"({"count":1,"underWay":0,"notWanted":0,"dryRun":true})");
  EXPECT_EQ(delivery("1")->status, Status::dead);
  EXPECT_EQ(resend(R"({"failed":true})").body,
            R"({"count":1,"underWay":0,"notWanted":0,"dryRun":false})");
  EXPECT_EQ(delivery("1")->status, Status::processing);
  EXPECT_EQ(resend(R"({"source":"shop","messageId":"none"})").status, 404);
  EXPECT_EQ(resend(R"({"failed":true})", "none").status, 404);
}

TEST_P(ResendRouteTest, WhatIsMeantHasToBeSaid) {
  for (const char* const body :
       {"{}", R"({"failed":false})", R"({"failed":true,"source":"shop","messageId":"1"})",
        R"({"source":"shop"})", R"({"failed":true,"until":"2030-01-01T00:00:00.000Z"})",
        R"({"failed":true,"perSecond":0})"}) {
    EXPECT_EQ(resend(body).status, 400) << body;
  }
  EXPECT_FALSE(delivery("1"));
}

TEST_P(EndpointRoutesTest, SecretsOfTheServerStayWithTheAddressThatTheyWereSetFor) {
  const Endpoint configured{.name = "crm",
                            .url = "https://crm.example/hooks",
                            .secrets = {{"literal:whsec_Zmlyc3Qtc2VjcmV0", "env:CRM_SECRET"}}};
  store_->endpoints().save(configured);
  for (const char* const url :
       {"oncebox+https://evil.example/v1", "http://crm.example/hooks",
        "https://crm.example:1/hooks", "https://crm.example/hooks/of-another-customer",
        "https://crm.example"}) {
    const Response moved = save(R"({"name":"crm","url":")" + std::string(url) + R"("})");
    EXPECT_EQ(moved.status, 400) << url;
    EXPECT_NE(problem_detail(moved).find("must not go to another address"), std::string::npos);
  }
  EXPECT_EQ(store_->endpoints().list(EndpointSecrets::include).find("crm")->endpoint, configured);
  const std::string same = R"({"name":"crm","url":"https://crm.example/hooks","topics":["a"]})";
  EXPECT_EQ(json_of(save(same)).at("status"), "Changed") << "all else may change";
  const std::string elsewhere =
      R"({"name":"crm","url":"https://evil.example","secrets":["literal:whsec_AAAA"]})";
  EXPECT_EQ(json_of(save(elsewhere)).at("status"), "Changed") << "secrets of the caller's own";
  EXPECT_EQ(json_of(save(R"({"name":"crm","url":"https://crm.example"})")).at("status"), "Changed");
}

TEST_P(EndpointRoutesTest, PrivateAddressesAreCalledOnlyWhereTheServerMayBeToldSo) {
  const std::string metadata = R"({"name":"spy","url":"oncebox+http://169.254.169.254/v1",)"
                               R"("allowPrivate":true})";
  const Response refused = save(metadata);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(problem_detail(refused).find("publishing.private_over_http"), std::string::npos);
  EXPECT_TRUE(list().at("endpoints").as_array().empty());
  EXPECT_TRUE(store_->policies().policies(QueueKind::deliveries).rules().empty())
      << "nothing of it stays";
  store_->endpoints().save(
      {.name = "spy", .url = "oncebox+http://10.0.0.7/v1", .allow_private = true});
  EXPECT_EQ(save(metadata).status, 400) << "not at another address either";
  EXPECT_EQ(save(R"({"name":"spy","url":"oncebox+http://10.0.0.7/v1","topics":["a"],)"
                 R"("allowPrivate":true})")
                .status,
            200);
}

class PrivateEndpointRoutesTest : public ApiTest {
 protected:
  PrivateEndpointRoutesTest() : ApiTest(options()) {}

  static ServerOptions options() {
    ServerOptions options = quiet_options();
    options.publish.private_over_http = true;
    return options;
  }
};
ONCEBOX_OVER_EACH_STORE(PrivateEndpointRoutesTest);

TEST_P(PrivateEndpointRoutesTest, AreCalledWhereTheConfigurationSaysSo) {
  EXPECT_EQ(call(post("/v1/endpoints", R"({"name":"here","url":"oncebox+http://10.0.0.7/v1",)"
                                       R"("allowPrivate":true})"))
                .status,
            200);
}

}  // namespace

}  // namespace oncebox::server
