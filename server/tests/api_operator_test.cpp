#include <gtest/gtest.h>

#include "api_fixture.hpp"
#include "faulty_store.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

class OperatorRoutesTest : public ApiTest {
 protected:
  explicit OperatorRoutesTest(const ServerOptions& options = quiet_options()) : ApiTest(options) {}

  void bury(const std::string& id, const std::string& topic = "order.created") {
    enqueue(id, topic);
    store_->inbox().mark({.key = {"shop", id}, .as = MarkAs::dead, .error = "broken " + id});
  }
  void bury_many(std::size_t count) {
    std::vector<Message> messages;
    std::vector<Mark> marks;
    for (std::size_t i = 0; i < count; ++i) {
      messages.push_back({.key = {"shop", "d" + std::to_string(i)}, .topic = "bulk"});
      marks.push_back({.key = messages.back().key, .as = MarkAs::dead, .error = "no"});
    }
    store_->inbox().enqueue(messages);
    store_->inbox().mark(marks);
  }
  [[nodiscard]] std::size_t dead() { return store_->inbox_operator().stats().total().dead; }
};
ONCEBOX_OVER_EACH_STORE(OperatorRoutesTest);

TEST_P(OperatorRoutesTest, ListsPageByPageWithFilters) {
  for (int i = 0; i < 5; ++i) enqueue("m" + std::to_string(i), i % 2 == 0 ? "even" : "odd");
  const json::value first = json_of(call(get("/v1/messages?limit=2&topic=even")));
  ASSERT_EQ(first.at("messages").as_array().size(), 2U) << first;
  EXPECT_FALSE(first.at("messages").at(0).as_object().contains("payload"));
  const std::string next = first.at("next").as_string().c_str();
  const json::value second =
      json_of(call(get("/v1/messages?limit=2&topic=even&payloads=true&after=" + next)));
  ASSERT_EQ(second.at("messages").as_array().size(), 1U) << second;
  EXPECT_EQ(second.at("messages").at(0).at("messageId"), "m4");
  EXPECT_TRUE(second.at("messages").at(0).as_object().contains("payload"));
  EXPECT_EQ(json_of(call(get("/v1/messages?order=NewestFirst&limit=1")))
                .at("messages")
                .at(0)
                .at("messageId"),
            "m4");
}

TEST_P(OperatorRoutesTest, APageWithPayloadsHasNoMoreThanAClaim) {
  for (const char* id : {"a", "b", "c"}) {
    store_->inbox().enqueue(
        {.key = {"shop", id}, .topic = "t", .payload = std::string(std::size_t{7} << 20, 'x')});
    store_->inbox().mark({.key = {"shop", id}, .as = MarkAs::dead, .error = "no"});
  }
  for (const std::string path : {"/v1/messages", "/v1/dead"}) {
    const json::value page = json_of(call(get(path + "?payloads=true")));
    EXPECT_EQ(page.at("messages").as_array().size(), 2U) << path;
    const std::string next(page.at("next").as_string());
    const json::value rest = json_of(call(get(path + "?payloads=true&after=" + next)));
    EXPECT_EQ(rest.at("messages").as_array().size(), 1U) << path;
    EXPECT_FALSE(rest.as_object().contains("next")) << path;
    EXPECT_EQ(json_of(call(get(path))).at("messages").as_array().size(), 3U) << path;
    EXPECT_EQ(
        json_of(call(get(path + "?payloads=true&maxBytes=1000"))).at("messages").as_array().size(),
        1U);
    EXPECT_EQ(call(get(path + "?maxBytes=0")).status, 400);
  }
}

TEST_P(OperatorRoutesTest, RefusesListsThatMakeNoSense) {
  for (const std::string query : {"limit=0", "limit=1001", "limit=x", "bogus=1", "after=nonsense",
                                  "status=Nope", "limit=1&limit=2", "firstSeenFrom=yesterday"}) {
    EXPECT_EQ(call(get("/v1/messages?" + query)).status, 400) << query;
    EXPECT_EQ(call(get("/v1/dead?" + query)).status, 400) << query;
  }
  EXPECT_EQ(call(get("/v1/dead?status=Done")).status, 400);
}

TEST_P(OperatorRoutesTest, CountsWhatMatches) {
  enqueue("a", "x");
  enqueue("b", "y");
  EXPECT_EQ(json_of(call(post("/v1/messages/count", ""))), json::parse(R"({"count":2})"));
  EXPECT_EQ(json_of(call(post("/v1/messages/count", R"({"filter":{"topic":"x"}})"))),
            json::parse(R"({"count":1})"));
}

TEST_P(OperatorRoutesTest, TellsHowFullAQueueIs) {
  enqueue("a", "x");
  bury("b", "y");
  const json::value stats = json_of(call(get("/v1/stats")));
  ASSERT_EQ(stats.at("topics").as_array().size(), 2U) << stats;
  EXPECT_EQ(stats.at("topics").at(0).at("ready"), 1);
  EXPECT_EQ(stats.at("topics").at(1).at("dead"), 1);
  EXPECT_TRUE(json_of(call(get("/v1/outbox/stats"))).at("topics").as_array().empty());
  EXPECT_EQ(call(get("/v1/stats?x=1")).status, 400);
}

TEST_P(OperatorRoutesTest, StatisticsComeInPages) {
  for (const char* topic : {"x", "y", "z"}) enqueue(topic, topic);
  const json::value first = json_of(call(get("/v1/stats?limit=2")));
  ASSERT_EQ(first.at("topics").as_array().size(), 2U) << first;
  EXPECT_EQ(first.at("total").at("ready"), 3) << "of all pages";
  const std::string next(first.at("next").as_string());
  const json::value last =
      json_of(call(get("/v1/stats?limit=2&after=" + wire::percent_encode(next))));
  ASSERT_EQ(last.at("topics").as_array().size(), 1U) << last;
  EXPECT_EQ(last.at("topics").at(0).at("topic"), "z");
  EXPECT_EQ(last.at("total").at("ready"), 3);
  EXPECT_FALSE(last.as_object().contains("next"));
  EXPECT_EQ(call(get("/v1/stats?limit=0")).status, 400);
  EXPECT_EQ(call(get("/v1/stats?limit=10001")).status, 400);
  EXPECT_EQ(call(get("/v1/stats?after=b")).status, 400);
}

TEST_P(OperatorRoutesTest, ListsAndShowsDeadMessages) {
  RecordProperty("requirement", "R-30");
  enqueue("alive");
  bury("gone");
  const json::value list = json_of(call(get("/v1/dead")));
  ASSERT_EQ(list.at("messages").as_array().size(), 1U);
  EXPECT_EQ(list.at("messages").at(0).at("messageId"), "gone");
  EXPECT_EQ(json_of(call(get("/v1/dead?status=Dead"))).at("messages").as_array().size(), 1U);
  EXPECT_EQ(json_of(call(get("/v1/dead/shop/gone"))).at("lastError"), "broken gone");
  EXPECT_EQ(call(get("/v1/dead/shop/alive")).status, 404);
  EXPECT_EQ(call(get("/v1/dead/shop/none")).status, 404);
}

TEST_P(OperatorRoutesTest, RevivesByKey) {
  RecordProperty("requirement", "R-30");
  enqueue("alive");
  bury("gone");
  EXPECT_EQ(json_of(call(post("/v1/dead/revive", R"({"keys":[
                {"source":"shop","messageId":"gone"},{"source":"shop","messageId":"alive"},
                {"source":"shop","messageId":"none"}],"reason":"fixed"})"))),
            json::parse(R"({"results":["Revived","NotDead","Unknown"],"count":1})"));
  EXPECT_EQ(record("gone").status, Status::processing);
  EXPECT_EQ(record("gone").revivals.last_reason, "fixed");
}

TEST_P(OperatorRoutesTest, RevivesWhatMatchesAFilterAfterADelay) {
  RecordProperty("requirement", "R-30");
  bury("a", "x");
  bury("b", "y");
  EXPECT_EQ(json_of(call(post("/v1/dead/revive", R"({"filter":{"topic":"x"},"delaySeconds":60})"))),
            json::parse(R"({"count":1,"dryRun":false})"));
  EXPECT_EQ(record("a").eligible_at, clock_.now() + std::chrono::seconds{60});
  EXPECT_EQ(record("b").status, Status::dead);
}

TEST_P(OperatorRoutesTest, ADryRunOnlyCounts) {
  enqueue("alive");
  bury("a", "x");
  bury("b", "y");
  for (const std::string path : {"/v1/dead/revive", "/v1/dead/purge"}) {
    EXPECT_EQ(json_of(call(post(path, R"({"all":true,"dryRun":true})"))),
              json::parse(R"({"count":2,"dryRun":true})"));
    EXPECT_EQ(json_of(call(post(path, R"({"filter":{"topic":"x"},"dryRun":true})"))),
              json::parse(R"({"count":1,"dryRun":true})"));
    EXPECT_EQ(json_of(call(post(path, R"({"all":true,"dryRun":true,"limit":1})"))),
              json::parse(R"({"count":1,"dryRun":true})"));
    EXPECT_EQ(json_of(call(post(path, R"({"dryRun":true,"keys":[
                  {"source":"shop","messageId":"a"},{"source":"shop","messageId":"alive"}]})"))),
              json::parse(R"({"count":1,"dryRun":true})"));
  }
  EXPECT_EQ(dead(), 2U);
}

TEST_P(OperatorRoutesTest, PurgesByKeyByFilterAndAll) {
  RecordProperty("requirement", "R-30");
  enqueue("alive");
  bury("a", "x");
  bury("b", "y");
  bury("c", "z");
  EXPECT_EQ(json_of(call(post("/v1/dead/purge", R"({"keys":[{"source":"shop","messageId":"a"},
                {"source":"shop","messageId":"alive"}]})"))),
            json::parse(R"({"results":["Purged","NotDead"],"count":1})"));
  EXPECT_EQ(json_of(call(post("/v1/dead/purge", R"({"filter":{"errorContains":"broken b"}})"))),
            json::parse(R"({"count":1,"dryRun":false})"));
  EXPECT_EQ(json_of(call(post("/v1/dead/purge", R"({"all":true})"))),
            json::parse(R"({"count":1,"dryRun":false})"));
  EXPECT_EQ(dead(), 0U);
  EXPECT_EQ(record("alive").status, Status::processing);
}

TEST_P(OperatorRoutesTest, MessagesAreCancelledByKeyAndByFilter) {
  RecordProperty("requirement", "R-30,R-33");
  enqueue("a");
  enqueue("b");
  enqueue("c");
  const std::string keys = R"({"keys":[{"source":"shop","messageId":"a"},
                               {"source":"shop","messageId":"nobody"}],"reason":"why")";
  EXPECT_EQ(json_of(call(post("/v1/messages/cancel", keys + R"(,"dryRun":true})"))),
            json::parse(R"({"count":1,"dryRun":true})"));
  EXPECT_EQ(dead(), 0U);
  EXPECT_EQ(json_of(call(post("/v1/messages/cancel", keys + "}"))),
            json::parse(R"({"results":["Changed","Unknown"],"count":1})"));
  EXPECT_EQ(record("a").history.last_error, "cancelled: why");
  EXPECT_EQ(json_of(call(post("/v1/messages/cancel", R"({"filter":{"state":["Ready"]}})"))),
            json::parse(R"({"count":2,"dryRun":false})"));
  EXPECT_EQ(dead(), 3U);
  EXPECT_NE(under_test_.metrics().expose().find(
                R"(oncebox_messages_dead_total{cause="cancelled",queue="inbox",store="first"} 3)"),
            std::string::npos);
}

TEST_P(OperatorRoutesTest, ManyAreRescheduledEachOnce) {
  RecordProperty("requirement", "R-30");
  std::vector<Message> messages;
  for (int i = 0; i < 2'300; ++i) {
    messages.push_back({.key = {"shop", "m" + std::to_string(i)}, .topic = "bulk"});
  }
  store_->inbox().enqueue(messages);
  const std::string due = format_rfc3339(clock_.now() + std::chrono::hours{1});
  EXPECT_EQ(
      json_of(call(post("/v1/messages/reschedule", R"({"all":true,"dueAt":")" + due + R"("})")))
          .at("count"),
      2'300);
  EXPECT_EQ(store_->inbox_operator().stats().total().waiting, WaitingCounts{.due = 2'300});
}

TEST_P(OperatorRoutesTest, MessagesAreRescheduledRunNowAndDeleted) {
  RecordProperty("requirement", "R-30,R-34");
  enqueue("a");
  const std::string due = format_rfc3339(clock_.now() + std::chrono::hours{1});
  EXPECT_EQ(
      json_of(call(post("/v1/messages/reschedule", R"({"all":true,"dueAt":")" + due + R"("})"))),
      json::parse(R"({"count":1,"dryRun":false})"));
  EXPECT_EQ(record("a").waiting_for, WaitingFor::due);
  EXPECT_EQ(json_of(call(get("/v1/messages?waitingFor=Due"))).at("messages").as_array().size(), 1U);
  EXPECT_EQ(json_of(call(get("/v1/messages?state=Ready"))).at("messages").as_array().size(), 0U);
  EXPECT_EQ(json_of(call(post("/v1/messages/run-now", R"({"filter":{"waitingFor":["Due"]}})"))),
            json::parse(R"({"count":1,"dryRun":false})"));
  EXPECT_EQ(record("a").state, State::ready);
  EXPECT_EQ(call(post("/v1/messages/reschedule", R"({"all":true})")).status, 400);
  EXPECT_EQ(json_of(call(post("/v1/messages/delete", R"({"all":true})"))),
            json::parse(R"({"count":1,"dryRun":false})"));
  EXPECT_EQ(call(get("/v1/messages/shop/a")).status, 404);
}

TEST_P(OperatorRoutesTest, ManyAreChangedInBatchesUpToTheLimit) {
  RecordProperty("requirement", "R-30");
  bury_many(2'600);
  EXPECT_EQ(json_of(call(post("/v1/dead/revive", R"({"all":true,"limit":1200})"))).at("count"),
            1'200);
  EXPECT_EQ(dead(), 1'400U);
  EXPECT_EQ(json_of(call(post("/v1/dead/purge", R"({"all":true})"))).at("count"), 1'400);
  EXPECT_EQ(dead(), 0U);
}

TEST_P(OperatorRoutesTest, NobodyChangesEverythingByASlip) {
  bury("a");
  for (const std::string path : {"/v1/dead/revive", "/v1/dead/purge"}) {
    for (const std::string body :
         {"", "{}", R"({"all":false})", R"({"filter":{}})", R"({"all":true,"keys":[]})",
          R"({"filter":{"topic":"x","bogus":1}})", R"({"all":true,"limit":0})",
          R"({"filter":{"status":["Done"]}})"}) {
      EXPECT_EQ(call(post(path, body)).status, 400) << path << " " << body;
    }
  }
  EXPECT_EQ(dead(), 1U);
}

TEST_P(OperatorRoutesTest, CleanupRemovesWhatIsPastItsRetention) {
  RecordProperty("requirement", "R-22");
  enqueue("a");
  store_->inbox().mark({.key = {"shop", "a"}, .as = MarkAs::processed});
  bury("b");
  store_->keys().complete({.key = "k", .retention = std::chrono::seconds{60}});
  clock_.advance(std::chrono::hours{2});
  EXPECT_EQ(json_of(call(post("/v1/cleanup", ""))),
            json::parse(R"({"doneRemoved":0,"deadRemoved":0,"keysRemoved":1})"));
  EXPECT_EQ(json_of(call(post("/v1/cleanup",
                              R"({"doneRetentionSeconds":3600,"deadRetentionSeconds":3600})"))),
            json::parse(R"({"doneRemoved":1,"deadRemoved":1,"keysRemoved":0})"));
  EXPECT_EQ(call(post("/v1/cleanup", R"({"limit":0})")).status, 400);
  EXPECT_EQ(call(post("/v1/cleanup?x=1", "{}")).status, 400);
}

TEST_P(OperatorRoutesTest, PausesAndResumesTopicsOfOneQueue) {
  EXPECT_EQ(json_of(call(get("/v1/topics/paused"))), json::parse(R"({"paused":[]})"));
  EXPECT_EQ(json_of(call(post("/v1/topics/pause", R"({"topic":"order.*"})"))),
            json::parse(R"({"paused":["order.*"]})"));
  EXPECT_EQ(json_of(call(get("/v1/topics/paused"))), json::parse(R"({"paused":["order.*"]})"));
  EXPECT_EQ(json_of(call(get("/v1/outbox/topics/paused"))), json::parse(R"({"paused":[]})"));
  EXPECT_EQ(json_of(call(get("/v1/stores/second/topics/paused"))), json::parse(R"({"paused":[]})"));
  enqueue("m");
  EXPECT_TRUE(claim().at("messages").as_array().empty());
  EXPECT_EQ(json_of(call(post("/v1/topics/resume", R"({"topic":"order.*"})"))),
            json::parse(R"({"paused":[]})"));
  EXPECT_EQ(claim().at("messages").as_array().size(), 1U);
  for (const std::string body : {"", "{}", R"({"topic":""})", R"({"topics":"x"})"}) {
    EXPECT_EQ(call(post("/v1/topics/pause", body)).status, 400) << body;
    EXPECT_EQ(call(post("/v1/topics/resume", body)).status, 400) << body;
  }
}

TEST_P(OperatorRoutesTest, ChangesTheRulesForTopicsFieldByField) {
  RecordProperty("requirement", "R-31");
  EXPECT_EQ(json_of(call(get("/v1/topics/policies"))), json::parse(R"({"policies":[]})"));
  EXPECT_EQ(json_of(call(post("/v1/topics/policies",
                              R"({"topic":"order.*","maxAttempts":2,"delaysSeconds":[1,60],)"
                              R"("jitter":"None","rate":{"count":5},"reason":"why"})"))),
            json::parse(R"({"topic":"order.*","maxAttempts":2,"delaysSeconds":[1,60],)"
                        R"("jitter":"None","rate":{"count":5,"perSeconds":1}})"));
  const json::value after = json_of(call(
      post("/v1/topics/policies", R"({"topic":"order.*","maxDeliveries":9,"maxConcurrency":1})")));
  EXPECT_EQ(after.at("maxAttempts"), 2) << "what is left out stays";
  EXPECT_EQ(after.at("maxDeliveries"), 9);
  EXPECT_EQ(json_of(call(get("/v1/topics/policies"))).at("policies").at(0), after);
  EXPECT_EQ(json_of(call(post("/v1/topics/policies",
                              R"({"topic":"order.*","maxAttempts":null,"delaysSeconds":null,)"
                              R"("jitter":null,"rate":null})"))),
            json::parse(R"({"topic":"order.*","maxDeliveries":9,"maxConcurrency":1})"))
      << "null clears";
  EXPECT_TRUE(json_of(call(get("/v1/outbox/topics/policies"))).at("policies").as_array().empty());
  EXPECT_EQ(json_of(call(post("/v1/topics/policies/remove", R"({"topic":"order.*"})"))),
            json::parse(R"({"count":1})"));
  EXPECT_EQ(json_of(call(post("/v1/topics/policies/remove", R"({"topic":"order.*"})"))),
            json::parse(R"({"count":0})"));
}

TEST_P(OperatorRoutesTest, RefusesRulesThatMakeNoSense) {
  for (const std::string body :
       {R"({"maxAttempts":2})", R"({"topic":"x","maxAttempts":0})", R"({"topic":"x","attempts":1})",
        R"({"topic":"x","backoffSeconds":1,"delaysSeconds":[1]})", R"({"topic":"x","jitter":"?"})",
        R"({"topic":"x","rate":{"perSeconds":1}})", R"({"topic":"x","rate":{"count":0}})",
        R"({"topic":"x","maxConcurrency":0})", R"({"topic":"x","delaysSeconds":[0]})"}) {
    EXPECT_EQ(call(post("/v1/topics/policies", body)).status, 400) << body;
  }
  EXPECT_EQ(json_of(call(get("/v1/topics/policies"))), json::parse(R"({"policies":[]})"));
}

TEST_P(OperatorRoutesTest, ListsTheStores) {
  const json::value answer = json_of(call(get("/v1/stores")));
  const json::value& first = answer.at("stores").at(0);
  EXPECT_EQ(first.at("name"), "first");
  EXPECT_EQ(first.at("default"), true);
  EXPECT_EQ(first.at("health"), "Healthy");
  EXPECT_EQ(first.at("capabilities").at("durable"), GetParam() == StoreKind::sqlite);
  EXPECT_EQ(answer.at("stores").at(1).at("name"), "second");
  EXPECT_EQ(answer.at("stores").at(1).at("default"), false);
}

TEST(ListOfStores, DoesNotWaitForOneThatHangsUnlessItIsTheOneThatIsMeant) {
  const testing::FakeClock clock;
  memory::MemoryStore good(clock);
  SilentStore silent(clock);
  ApiUnderTest under_test(quiet_options(), {{"good", good}, {"silent", silent}}, clock);
  // More than there are threads.
  for (int i = 0; i < 20; ++i) {
    const json::value answer = json_of(under_test.call(get("/v1/stores")));
    ASSERT_EQ(answer.at("stores").as_array().size(), 2U) << i;
    EXPECT_EQ(answer.at("stores").at(1).at("name"), "silent");
  }
  const auto asking = under_test.begin(get("/v1/stores?name=silent"));
  EXPECT_EQ(json_of(under_test.call(get("/v1/stores?name=good"))).at("stores").at(0).at("health"),
            "Healthy");
  EXPECT_FALSE(asking->answered());
  silent.let_go();
  EXPECT_EQ(json_of(asking->wait()).at("stores").at(0).at("health"), "Healthy");
}

class ConfiguredPauses : public OperatorRoutesTest {
 protected:
  ConfiguredPauses() : OperatorRoutesTest(options()) {}
  static ServerOptions options() {
    ServerOptions paused = quiet_options();
    paused.topics = {{.topic = "order.*", .change = {.max_attempts = std::nullopt, .paused = true}},
                     {.topic = "mail", .change = {.max_attempts = 3, .paused = true}}};
    paused.retry = {.max_attempts = 7};
    return paused;
  }
  static std::size_t rule_count(Store& store) {
    return store.policies().policies(QueueKind::inbox).rules().size();
  }
};
ONCEBOX_OVER_EACH_STORE(ConfiguredPauses);

TEST_P(ConfiguredPauses, AreSetInEveryStoreThatIsOpened) {
  EXPECT_TRUE(eventually([&] { return rule_count(*store_) == 3 && rule_count(*second_) == 3; }));
  EXPECT_EQ(json_of(call(get("/v1/topics/paused"))),
            json::parse(R"({"paused":["mail","order.*"]})"));
  EXPECT_EQ(json_of(call(get("/v1/topics/policies"))), json::parse(R"({"policies":[
      {"topic":"*","maxAttempts":7},
      {"topic":"mail","maxAttempts":3,"paused":true},
      {"topic":"order.*","paused":true}]})"));
  EXPECT_EQ(json_of(call(get("/v1/stores/second/topics/paused"))).at("paused").as_array().size(),
            2U);
  enqueue("m");
  EXPECT_TRUE(claim().at("messages").as_array().empty());
}

TEST_P(ConfiguredPauses, AreInTheAuditTrailWhenTheyChangeSomething) {
  ASSERT_TRUE(eventually([&] { return rule_count(*store_) == 3; }));
  const auto entries = [&] {
    std::vector<std::string> all;
    for (const AuditRecord& record : store_->audit().list().records) {
      const bool is_done = record.result == AuditResult{.changed = 1};
      all.push_back(record.entry.actor + " " + std::string(to_string(record.entry.action)) + " " +
                    record.entry.subject + (is_done ? "" : " ?"));
    }
    return all;
  };
  ASSERT_TRUE(eventually([&] { return entries().size() == 3 && !entries()[0].ends_with("?"); }));
  EXPECT_EQ(entries()[0],
            R"(configuration set_policy {"topic":"mail","maxAttempts":3,"paused":true})");
  EXPECT_EQ(entries()[1],
            R"(configuration set_policy {"topic":"order.*","maxAttempts":null,"paused":true})");
  EXPECT_EQ(entries()[2], R"(configuration set_policy {"topic":"*","maxAttempts":7})");

  ServerOptions more = options();
  more.topics.push_back({.topic = "new", .change = {.max_attempts = 1}});
  ApiUnderTest again(more, {{"first", *store_}}, clock_);
  ASSERT_TRUE(eventually([&] { return rule_count(*store_) == 4; }));
  EXPECT_EQ(entries().size(), 4U) << "rules that say so already leave no entry";
}

TEST(ActionsByFilter, WhatIsAcceptedWhileItIsDeletedAsSeenStays) {
  ::testing::Test::RecordProperty("requirement", "R-30");
  const testing::FakeClock clock;
  const MessageKey key{"shop", "a"};
  for (const std::string_view path : {"delete", "cancel", "run-now"}) {
    RacingStore store(clock, [&](Store& below) {
      below.inbox().enqueue(Message{.key = key, .topic = "order.paid"});
    });
    const bool is_delete = path == "delete";
    if (is_delete) {
      store.inbox().observe(Observation{.key = key});
    } else {
      store.inbox().enqueue(
          Message{.key = key, .topic = "mail", .due_at = clock.now() + std::chrono::hours{1}});
    }
    ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
    const std::string filter =
        is_delete ? R"({"filter":{"state":["Seen"]}})" : R"({"filter":{"topic":"mail"}})";
    EXPECT_EQ(json_of(under_test.call(post("/v1/messages/" + std::string(path), filter))),
              json::parse(R"({"count":0,"dryRun":false})"))
        << path;
    const std::optional<MessageRecord> record = store.inbox().find(key);
    ASSERT_TRUE(record) << path;
    EXPECT_EQ(record->message->topic, "order.paid") << path;
    EXPECT_EQ(record->state, State::ready) << path;
  }
}

TEST_P(OperatorRoutesTest, AFilterBesideKeysNarrowsThem) {
  RecordProperty("requirement", "R-30");
  enqueue("a", "x");
  bury("b", "x");
  const std::string keys =
      R"({"keys":[{"source":"shop","messageId":"a"},{"source":"shop","messageId":"b"}],)";
  const std::string dead = R"("filter":{"state":["Dead"]}})";
  EXPECT_EQ(json_of(call(post("/v1/messages/delete", keys + R"("dryRun":true,)" + dead))),
            json::parse(R"({"count":1,"dryRun":true})"));
  EXPECT_EQ(json_of(call(post("/v1/messages/cancel", keys + dead))),
            json::parse(R"({"results":["Refused","Refused"],"count":0})"));
  EXPECT_EQ(json_of(call(post("/v1/dead/purge", keys + R"("filter":{"topic":"y"}})"))),
            json::parse(R"({"results":["NotDead","NotDead"],"count":0})"));
  EXPECT_EQ(json_of(call(post("/v1/messages/delete", keys + dead))),
            json::parse(R"({"results":["Refused","Changed"],"count":1})"));
  EXPECT_EQ(call(post("/v1/messages/delete", keys + R"("filter":{}})")).status, 400);
  EXPECT_EQ(call(post("/v1/messages/delete", keys + R"("all":true,)" + dead)).status, 400);
  EXPECT_EQ(call(post("/v1/dead/revive", keys + dead)).status, 400);
  const json::value audit = json_of(call(get("/v1/audit?limit=1")));
  EXPECT_NE(json::serialize(audit).find("Dead"), std::string::npos) << audit;
}

TEST(Readiness, IsThatOfTheDefaultStoreAndAskedForAtMostOnceASecond) {
  const testing::FakeClock clock;
  FaultyStore store(clock, [](std::string_view) { return testing::Fault::none; });
  memory::MemoryStore good(clock);
  store.set_health(HealthStatus::unavailable);
  ApiUnderTest under_test(quiet_options(), {{"main", store}, {"good", good}}, clock);
  // It is not waited for long, and a busy machine may need longer.
  std::chrono::steady_clock::time_point asked;
  Readiness first;
  ASSERT_TRUE(eventually([&] {
    asked = std::chrono::steady_clock::now();
    first = under_test.api().readiness();
    return first.detail == "store main: told so";
  }));
  EXPECT_FALSE(first.ready);
  store.set_health(HealthStatus::degraded);
  const bool ready = under_test.api().readiness().ready;
  if (std::chrono::steady_clock::now() - asked < std::chrono::seconds{1}) {
    EXPECT_FALSE(ready) << "the last answer is fresh enough";
  }
  EXPECT_TRUE(eventually([&] { return under_test.api().readiness().ready; }))
      << "degraded is still of use";
}

TEST(Readiness, AnotherStoreThatIsDownOnlyDegradesIt) {
  const testing::FakeClock clock;
  memory::MemoryStore good(clock);
  FaultyStore bad(clock, [](std::string_view) { return testing::Fault::none; });
  bad.set_health(HealthStatus::unavailable);
  ApiUnderTest under_test(quiet_options(), {{"good", good}, {"bad", bad}}, clock);
  // Known once the statistics have asked it.
  Readiness readiness;
  ASSERT_TRUE(eventually([&] {
    readiness = under_test.api().readiness();
    return readiness.stores_down == 1 && readiness.ready;
  }));
  EXPECT_TRUE(readiness.degraded);
  EXPECT_EQ(readiness.detail, "store bad: told so");
}

TEST(Readiness, DoesNotWaitForATenantThatHangs) {
  const testing::FakeClock clock;
  memory::MemoryStore good(clock);
  SilentStore silent(clock);
  ApiUnderTest under_test(quiet_options(), {{"good", good}, {"silent", silent}}, clock);
  EXPECT_TRUE(eventually([&] { return under_test.api().readiness().ready; }));
  silent.let_go();
}

TEST(Readiness, ADefaultStoreThatHangsIsNotReady) {
  const testing::FakeClock clock;
  SilentStore silent(clock);
  memory::MemoryStore good(clock);
  ApiUnderTest under_test(quiet_options(), {{"silent", silent}, {"good", good}}, clock);
  const Readiness readiness = under_test.api().readiness();
  EXPECT_FALSE(readiness.ready);
  EXPECT_EQ(readiness.detail, "store silent: it does not answer");
  silent.let_go();
  EXPECT_TRUE(eventually([&] { return under_test.api().readiness().ready; }));
}

TEST(BorrowedStores, NamesAreCheckedAndUnique) {
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  NullLogger logger;
  const auto host = [&](const std::vector<NamedStore>& stores) {
    (void)borrowed_set(stores, logger);
  };
  EXPECT_THROW(host({}), Error);
  EXPECT_THROW(host({{"", store}}), Error);
  EXPECT_THROW(host({{"a/b", store}}), Error);
  EXPECT_THROW(host({{std::string(65, 'a'), store}}), Error);
  EXPECT_THROW(host({{"a", store}, {"a", store}}), Error);
  EXPECT_NO_THROW(host({{"a-B_9", store}, {"b", store}}));
}

}  // namespace

}  // namespace oncebox::server
