#include <gtest/gtest.h>

#include "api_fixture.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

class EditRoutesTest : public ApiTest {
 protected:
  void bury(const std::string& id) {
    enqueue(id);
    store_->inbox().mark({.key = {"shop", id}, .as = MarkAs::dead, .error = "no"});
  }
};
ONCEBOX_OVER_EACH_STORE(EditRoutesTest);

TEST_P(EditRoutesTest, RevivesWithAnotherPayloadAndKeepsWhoDidIt) {
  RecordProperty("requirement", "R-30");
  enqueue("alive");
  bury("gone");
  store_->inbox().observe({.key = {"shop", "observed"}});
  store_->inbox().mark({.key = {"shop", "observed"}, .as = MarkAs::dead});
  const std::string before = record("gone").message->payload.bytes();
  TestCall edit = post("/v1/dead/edit", R"({"items":[
      {"source":"shop","messageId":"gone","payload":{"amount": 2}},
      {"source":"shop","messageId":"alive","payload":"x"},
      {"source":"shop","messageId":"none","payload":"x"},
      {"source":"shop","messageId":"observed","payloadBase64":"eA=="}],
      "delaySeconds":60,"reason":"fixed"})");
  edit.principal = "ops";
  EXPECT_EQ(json_of(call(edit)),
            json::parse(R"({"results":["Revived","NotDead","Unknown","NoContent"],"count":1})"));
  EXPECT_EQ(record("gone").message->payload.bytes(), R"({"amount": 2})");
  EXPECT_EQ(record("gone").eligible_at, clock_.now() + std::chrono::seconds{60});
  const json::value history = json_of(call(get("/v1/dead/shop/gone/history")));
  ASSERT_EQ(history.at("contents").as_array().size(), 1U) << history;
  const json::value& past = history.at("contents").at(0);
  EXPECT_EQ(past.at("contentVersion"), 1);
  EXPECT_EQ(past.at("payload").as_string(), before);
  EXPECT_EQ(past.at("replacedBy"), "ops");
  EXPECT_EQ(past.at("reason"), "fixed");
}

TEST_P(EditRoutesTest, HistoryOfWhatWasNeverEditedIsEmpty) {
  enqueue("a");
  for (const std::string path : {"/v1/dead/shop/a/history", "/v1/dead/shop/none/history",
                                 "/v1/outbox/dead/shop/a/history"}) {
    EXPECT_EQ(json_of(call(get(path))), json::parse(R"({"contents":[]})")) << path;
  }
  EXPECT_EQ(call(get("/v1/dead/shop/a/history?x=1")).status, 400);
  EXPECT_EQ(call(get("/v1/stores/nowhere/dead/shop/a/history")).status, 404);
}

TEST_P(EditRoutesTest, RefusesEditsThatMakeNoSense) {
  bury("a");
  for (const std::string body :
       {"", "{}", R"({"items":[{"source":"shop","messageId":"a"}]})",
        R"({"items":[{"source":"shop","messageId":"a","payload":1}],"actor":"me"})",
        R"({"items":[{"source":"shop","messageId":"a","payload":1}],"delaySeconds":-1})",
        R"({"items":[{"source":"shop","messageId":"a","payload":1,"topic":"x"}]})"}) {
    EXPECT_EQ(call(post("/v1/dead/edit", body)).status, 400) << body;
  }
  EXPECT_EQ(call(post("/v1/dead/edit?x=1", R"({"items":[]})")).status, 400);
  EXPECT_EQ(record("a").status, Status::dead);
}

TEST_P(EditRoutesTest, OutboxAndNamedStoresHaveTheirOwn) {
  second_->outbox().enqueue({.key = {"shop", "a"}, .topic = "t", .payload = "old"});
  second_->outbox().mark({.key = {"shop", "a"}, .as = MarkAs::dead});
  const std::string body = R"({"items":[{"source":"shop","messageId":"a","payload":"new"}]})";
  EXPECT_EQ(json_of(call(post("/v1/outbox/dead/edit", body))).at("count"), 0);
  EXPECT_EQ(json_of(call(post("/v1/stores/second/dead/edit", body))).at("count"), 0);
  EXPECT_EQ(json_of(call(post("/v1/stores/second/outbox/dead/edit", body))).at("count"), 1);
  EXPECT_EQ(json_of(call(get("/v1/stores/second/outbox/dead/shop/a/history")))
                .at("contents")
                .at(0)
                .at("replacedBy"),
            "anonymous");
}

}  // namespace

}  // namespace oncebox::server
