#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "api_fixture.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "watched.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

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

/// Configured so that the server publishes.
class PublishingServerTest : public ApiTest {
 protected:
  PublishingServerTest() : PublishingServerTest(std::make_shared<Receiver>()) {}

  struct Receiver {
    std::atomic<int> status = 200;
    testing::ScriptedServer server{
        [this](const testing::ReceivedRequest&) { return testing::Reaction{.status = status}; }};
  };

  explicit PublishingServerTest(std::shared_ptr<Receiver> receiver)
      : ApiTest(options_for(*receiver)), receiver_(std::move(receiver)) {}
  ~PublishingServerTest() override { under_test_.destroy(); }

  static ServerOptions options_for(const Receiver& receiver) {
    ServerOptions options = quiet_options();
    options.publish.endpoints = {{.name = "crm",
                                  .url = receiver.server.url(),
                                  .topics = {"order.*"},
                                  .secrets = {"literal:whsec_Zmlyc3Qtc2VjcmV0"},
                                  .allow_private = true,
                                  .policy = {.max_attempts = 1}}};
    options.publish.workers = 2;
    return options;
  }
  /// The configured endpoints are set in the background.
  [[nodiscard]] bool wait_for_endpoint() {
    return eventually([&] { return store_->endpoints().list().find("crm") != nullptr; });
  }
  void send(const std::string& id) {
    call(post("/v1/outbox/messages", R"({"source":"shop","messageId":")" + id +
                                         R"(","topic":"order.paid","payload":{"amount":1}})"));
  }
  [[nodiscard]] std::optional<MessageRecord> delivery(const std::string& id) {
    return store_->deliveries().find(MessageKey{"shop", MessageId(id + "@crm")});
  }

  const std::shared_ptr<Receiver> receiver_;
};
ONCEBOX_OVER_EACH_STORE(PublishingServerTest);

TEST_P(PublishingServerTest, WhatComesIntoTheOutboxGoesToTheConfiguredEndpoint) {
  ASSERT_TRUE(wait_for_endpoint());
  send("1");
  ASSERT_TRUE(receiver_->server.wait_for_requests(1));
  const testing::ReceivedRequest request = receiver_->server.requests().at(0);
  EXPECT_EQ(request.body, R"({"amount":1})");
  EXPECT_EQ(request.fields.at("webhook-id"), "shop:1");
  EXPECT_TRUE(eventually([&] {
    const auto found = delivery("1");
    return found && found->status == Status::done;
  }));
}

TEST_P(PublishingServerTest, WhatFailsForGoodIsDeadAmongTheDeliveries) {
  ASSERT_TRUE(wait_for_endpoint());
  receiver_->status = 422;
  send("1");
  ASSERT_TRUE(eventually([&] {
    const auto found = delivery("1");
    return found && found->status == Status::dead;
  }));
  const json::value dead = json_of(call(get("/v1/deliveries/dead")));
  EXPECT_EQ(dead.at("messages").at(0).at("topic"), "crm");
}

}  // namespace

}  // namespace oncebox::server
