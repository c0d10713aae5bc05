#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <set>

#include "api_fixture.hpp"
#include "faulty_store.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

constexpr int kForbidden = 403;

/// A request about messages that belong to `who`: to the source of that name, and to topics that
/// begin with it. What is named "1" is there, what is named "dead" is dead.
struct LimitedRequest {
  std::function<std::string(const std::string& who)> rest;  ///< of the target, behind the route
  std::function<std::string(const std::string& who)> body;
  bool chooses_by_topic = false;  ///< refused to tokens that are limited to sources
};

std::string no_text(const std::string&) { return {}; }

/// `text` with `@` replaced.
auto about(std::string text) {
  return [text = std::move(text)](const std::string& who) {
    std::string made;
    for (const char c : text) made += c == '@' ? who : std::string(1, c);
    return made;
  };
}

const std::string kItem = R"({"source":"@","messageId":"1")";
const std::string kOwned = R"({"owner":"01940000-0000-7000-8000-000000000001","items":[)" + kItem;
const std::string kQuery = "?source=@&topic=@.*";
const std::string kFilter = R"({"filter":{"source":"@","topic":"@.*"})";

/// How each route that holds to sources and topics is asked, by its method and the path behind
/// `/v1`, a store and a queue. A route that is not here, and says that it holds to them, fails.
const std::map<std::string, LimitedRequest>& limited_requests() {
  static const std::map<std::string, LimitedRequest> requests{
      {"POST /messages",
       {no_text, about(R"({"source":"@","messageId":"new","topic":"@.a","payload":1})")}},
      {"POST /messages/claim",
       {no_text, about(R"({"topics":{"only":["@.*"]}})"), /*chooses_by_topic=*/true}},
      {"POST /messages/next-due",
       {no_text, about(R"({"topics":{"only":["@.a"]}})"), /*chooses_by_topic=*/true}},
      {"POST /messages/settle", {no_text, about(kOwned + R"(,"verdict":"Ack"}]})")}},
      {"POST /messages/extend", {no_text, about(kOwned + "}]}")}},
      {"POST /messages/observe", {no_text, about(R"({"items":[)" + kItem + "}]}")}},
      {"POST /messages/mark",
       {no_text, about(R"({"items":[)" + kItem + R"(,"as":"Processing"}]})")}},
      {"POST /messages/find", {no_text, about(R"({"keys":[)" + kItem + "}]}")}},
      {"GET /messages/{source}/{messageId}", {about("/messages/@/1"), no_text}},
      {"GET /messages", {about(kQuery), no_text}},
      {"POST /messages/count", {no_text, about(kFilter + "}")}},
      {"GET /dead", {about(kQuery), no_text}},
      {"GET /dead/groups", {about(kQuery), no_text}},
      {"GET /dead/{source}/{messageId}", {about("/dead/@/dead"), no_text}},
      {"GET /dead/{source}/{messageId}/history", {about("/dead/@/dead/history"), no_text}},
      {"POST /dead/revive", {no_text, about(kFilter + R"(,"dryRun":true})")}},
      {"POST /dead/purge", {no_text, about(kFilter + R"(,"dryRun":true})")}},
      {"POST /messages/cancel", {no_text, about(kFilter + R"(,"dryRun":true})")}},
      {"POST /messages/run-now", {no_text, about(kFilter + R"(,"dryRun":true})")}},
      {"POST /messages/reschedule",
       {no_text, about(kFilter + R"(,"dueAt":"2030-01-01T00:00:00.000Z","dryRun":true})")}},
      {"POST /messages/delete", {no_text, about(kFilter + R"(,"dryRun":true})")}},
      {"POST /dead/edit",
       {no_text, about(R"({"items":[{"source":"@","messageId":"dead","payload":1}]})")}},
  };
  return requests;
}

/// Routes that leave out what is not for the caller, whatever it asks.
const std::set<std::string>& filtering_routes() {
  static const std::set<std::string> routes{"GET /stats", "GET /stores"};
  return routes;
}

/// The pattern without `/v1`, the store and the queue.
std::string bare_pattern(std::string pattern) {
  for (const std::string prefix : {"/v1", "/stores/{store}", "/outbox", "/deliveries"}) {
    if (pattern.starts_with(prefix + "/")) pattern.erase(0, prefix.size());
  }
  return pattern;
}

std::string name_of(const Route& route) {
  return std::string(to_string(route.method)) + " " + bare_pattern(route.pattern);
}

class TokenLimitRoutes : public ApiTest {
 protected:
  TokenLimitRoutes() {
    for (Store* store : {store_.get(), second_.get()}) {
      for (const QueueKind queue : kQueueKinds) fill(store->queue(queue));
    }
  }

  static void fill(QueueStore& queue) {
    for (const std::string who : {"mine", "theirs"}) {
      for (const std::string id : {"1", "dead"}) {
        queue.enqueue(Message{.key = {who, id}, .topic = Topic(who + ".a"), .payload = "x"});
      }
      queue.mark({.key = {who, "dead"}, .as = MarkAs::dead, .error = "no"});
    }
  }

  /// Every route but those that need no token, once for each store and queue.
  [[nodiscard]] std::vector<Route> guarded_routes() const {
    std::vector<Route> routes;
    for (const Route& route : under_test_.router().routes()) {
      if (route.scope != Scope::open) routes.push_back(route);
    }
    return routes;
  }

  int status_of(const Route& route, const std::string& target, const std::string& body,
                const TokenLimits& limits) {
    TestCall asked{.method = route.method, .target = target, .body = body, .limits = limits};
    return call(asked).status;
  }

  /// Some target of the route, with anything for its arguments.
  static std::string any_target(const Route& route) {
    std::string target;
    bool inside = false;
    for (const char c : route.pattern) {
      if (c == '{') target += 'x';
      inside = c == '{' || (inside && c != '}');
      if (!inside && c != '}') target += c;
    }
    const std::string store = "/v1/stores/x/";
    return target.starts_with(store) ? "/v1/stores/second/" + target.substr(store.size()) : target;
  }

  int ask_about(const Route& route, const std::string& who, const TokenLimits& limits) {
    const LimitedRequest& asked = limited_requests().at(name_of(route));
    std::string target = route.pattern;
    if (const std::size_t at = target.find("{store}"); at != target.npos) {
      target.replace(at, 7, "second");
    }
    const std::string rest = asked.rest(who);
    if (rest.starts_with('/')) {
      target = target.substr(0, target.size() - bare_pattern(route.pattern).size());
    }
    return status_of(route, target + rest, asked.body(who), limits);
  }

  void expect_held(const TokenLimits& limits) {
    for (const Route& route : guarded_routes()) {
      SCOPED_TRACE(std::string(to_string(route.method)) + " " + route.pattern);
      if (route.limits != HeldLimits::all) {
        EXPECT_EQ(status_of(route, any_target(route), "{}", limits), kForbidden);
      } else if (filtering_routes().contains(name_of(route))) {
        continue;
      } else if (!limited_requests().contains(name_of(route))) {
        ADD_FAILURE() << "nobody has shown that this route holds to the limits of tokens";
      } else {
        EXPECT_EQ(ask_about(route, "theirs", limits), kForbidden);
        const bool is_refused =
            limited_requests().at(name_of(route)).chooses_by_topic && !limits.sources.empty();
        EXPECT_EQ(ask_about(route, "mine", limits), is_refused ? kForbidden : 200);
      }
    }
  }
};
ONCEBOX_OVER_EACH_STORE(TokenLimitRoutes);

TEST_P(TokenLimitRoutes, NoRouteServesAnotherStore) {
  const TokenLimits limits{.stores = {"elsewhere", "other-*"}};
  for (const Route& route : guarded_routes()) {
    SCOPED_TRACE(std::string(to_string(route.method)) + " " + route.pattern);
    if (route.pattern == "/v1/stores") continue;
    EXPECT_EQ(status_of(route, any_target(route), "{}", limits), kForbidden);
  }
  TestCall list = get("/v1/stores");
  list.limits = {.stores = {"sec*"}};
  const json::value stores = json_of(call(list)).at("stores");
  ASSERT_EQ(stores.as_array().size(), 1U);
  EXPECT_EQ(stores.at(0).at("name"), "second");
}

TEST_P(TokenLimitRoutes, TheStoresOfATokenAreServedWhole) {
  const TokenLimits limits{.stores = {"first"}};
  for (const Route& route : guarded_routes()) {
    SCOPED_TRACE(std::string(to_string(route.method)) + " " + route.pattern);
    if (route.limits == HeldLimits::none) continue;
    const bool is_of_another = route.pattern.starts_with("/v1/stores/{store}");
    const int status = status_of(route, any_target(route), "", limits);
    EXPECT_EQ(status == kForbidden, is_of_another) << status;
  }
}

TEST_P(TokenLimitRoutes, NoRouteShowsOrChangesWhatIsOfAnotherSource) {
  expect_held({.sources = {"mine"}});
}

TEST_P(TokenLimitRoutes, NoRouteShowsOrChangesWhatIsOfAnotherTopic) {
  expect_held({.topics = {"mine.*"}});
}

class LimitedTokens : public TokenLimitRoutes {
 protected:
  json::value ask(TestCall asked, const TokenLimits& limits) {
    asked.limits = limits;
    const Response response = call(asked);
    EXPECT_EQ(response.status, 200) << asked.target << " " << response.body;
    return json_of(response);
  }
  int status(TestCall asked, const TokenLimits& limits) {
    asked.limits = limits;
    return call(asked).status;
  }

  const TokenLimits of_topic_{.topics = {"mine.*"}};
  const TokenLimits of_source_{.sources = {"mine"}};
};
ONCEBOX_OVER_EACH_STORE(LimitedTokens);

TEST_P(LimitedTokens, AChoiceThatIsLeftOpenIsTheLimit) {
  for (const TokenLimits& limits : {of_topic_, of_source_}) {
    EXPECT_EQ(ask(get("/v1/messages"), limits).at("messages").as_array().size(), 2U);
    EXPECT_EQ(ask(get("/v1/dead"), limits).at("messages").as_array().size(), 1U);
    EXPECT_EQ(ask(post("/v1/messages/count", ""), limits).at("count"), 2);
    EXPECT_EQ(ask(get("/v1/dead/groups"), limits).at("groups").at(0).at("count"), 1);
    EXPECT_EQ(ask(post("/v1/dead/revive", R"({"all":true,"dryRun":true})"), limits).at("count"), 1);
    EXPECT_EQ(ask(post("/v1/dead/purge", R"({"all":true,"dryRun":true})"), limits).at("count"), 1);
  }
}

TEST_P(LimitedTokens, OfSeveralLimitsACallSaysWhichItMeans) {
  const TokenLimits several{.sources = {"mine", "ours"}, .topics = {"mine.*", "ours.*"}};
  EXPECT_EQ(status(get("/v1/messages?topic=mine.*"), several), kForbidden);
  EXPECT_EQ(status(get("/v1/messages?source=mine"), several), kForbidden);
  EXPECT_EQ(status(get("/v1/messages?source=mine&topic=mine.*"), several), 200);
  EXPECT_EQ(status(get("/v1/messages?topic=*"), of_topic_), kForbidden);
  EXPECT_EQ(status(get("/v1/messages?topic=mine.a"), of_topic_), 200);
}

TEST_P(LimitedTokens, AClaimGetsWhatTheTokenMayHaveAndHearsOfNothingElse) {
  store_->inbox().enqueue(Message{.key = {"theirs", "old"},
                                  .topic = "theirs.a",
                                  .payload = "x",
                                  .expires_at = clock_.now() + std::chrono::seconds{1}});
  clock_.advance(std::chrono::seconds{1});
  const json::value claimed = ask(post("/v1/messages/claim", "{}"), of_topic_);
  ASSERT_EQ(claimed.at("messages").as_array().size(), 1U);
  EXPECT_EQ(claimed.at("messages").at(0).at("topic"), "mine.a");
  EXPECT_FALSE(claimed.as_object().contains("reaped")) << "it died of another topic";
}

TEST_P(LimitedTokens, StatisticsAreThoseOfItsTopics) {
  const json::value stats = ask(get("/v1/stats"), of_topic_);
  ASSERT_EQ(stats.at("topics").as_array().size(), 1U);
  EXPECT_EQ(stats.at("topics").at(0).at("topic"), "mine.a");
  EXPECT_EQ(stats.at("total").at("ready"), 1);
  EXPECT_EQ(status(get("/v1/stats"), of_source_), kForbidden);
}

TEST_P(LimitedTokens, DeadMessagesThatAreNamedMustAllBeAllowed) {
  const std::string keys = R"({"keys":[{"source":"mine","messageId":"dead"},
                                       {"source":"theirs","messageId":"dead"}]})";
  for (const TokenLimits& limits : {of_topic_, of_source_}) {
    EXPECT_EQ(status(post("/v1/dead/revive", keys), limits), kForbidden);
    EXPECT_EQ(status(post("/v1/dead/purge", keys), limits), kForbidden);
    for (const std::string action : {"cancel", "run-now", "delete"}) {
      EXPECT_EQ(status(post("/v1/messages/" + action, keys), limits), kForbidden) << action;
    }
  }
  EXPECT_EQ(store_->inbox().find(MessageKey{"mine", "dead"})->status, Status::dead);
}

TEST_P(LimitedTokens, OfManyMessagesAnArrayIsRefusedWholeAndALineAlone) {
  const std::string mine = R"({"source":"mine","messageId":"n","topic":"mine.b","payload":1})";
  const std::string theirs =
      R"({"source":"theirs","messageId":"n","topic":"theirs.b","payload":1})";
  for (const TokenLimits& limits : {of_topic_, of_source_}) {
    EXPECT_EQ(status(post("/v1/messages", "[" + mine + "," + theirs + "]"), limits), kForbidden);
    EXPECT_FALSE(store_->inbox().find(MessageKey{"mine", "n"}));
  }
  TestCall lines = post("/v1/messages", theirs + "\n" + mine + "\n");
  lines.fields = {{"Content-Type", "application/x-ndjson"}};
  const json::value summary = ask(lines, of_source_);
  EXPECT_EQ(summary.at("accepted"), 1);
  EXPECT_EQ(summary.at("failed").at(0).at("line"), 1);
  EXPECT_EQ(summary.at("failed").at(0).at("code"), "forbidden");
}

TEST_P(LimitedTokens, AKnownKeyOfAnotherTopicIsNotTakenOver) {
  const std::string over = R"({"source":"theirs","messageId":"1","topic":"mine.a","payload":2})";
  const std::string named = R"({"source":"mine","messageId":"n","topic":"mine.a","payload":1})";
  for (const std::string path : {"/v1/messages", "/v1/outbox/messages"}) {
    SCOPED_TRACE(path);
    QueueStore& queue = path == "/v1/messages" ? store_->inbox() : store_->outbox();
    const MessageRecord before = queue.find(MessageKey{"theirs", "1"}).value();
    TestCall array = post(path, "[" + named + R"(,{"topic":"mine.a","payload":1},)" + over + "]");
    array.fields.push_back({"Idempotency-Key", "k"});  // several transactions
    EXPECT_EQ(status(post(path, over), of_topic_), kForbidden);
    EXPECT_EQ(status(post(path + "?onHashMismatch=Reject", over), of_topic_), kForbidden);
    EXPECT_EQ(status(array, of_topic_), kForbidden);
    EXPECT_FALSE(queue.find(MessageKey{"mine", "n"}));
    TestCall lines = post(path, over + "\n" + named + "\n");
    lines.fields = {{"Content-Type", "application/x-ndjson"}};
    const json::value summary = ask(lines, of_topic_);
    EXPECT_EQ(summary.at("accepted"), 1);
    EXPECT_EQ(summary.at("failed").at(0).at("line"), 1);
    EXPECT_EQ(summary.at("failed").at(0).at("code"), "forbidden");
    EXPECT_EQ(queue.find(MessageKey{"theirs", "1"}), before) << "nothing was changed";
    const TestCall own =
        post(path, R"({"source":"mine","messageId":"1","topic":"mine.b","payload":2})");
    EXPECT_EQ(ask(own, of_topic_).at("status"), "Updated");
  }
}

TEST(TokenLimitCosts, OnlyATokenWithTopicsHasTheStoreLookedInto) {
  const testing::FakeClock clock;
  std::atomic<int> finds = 0;
  FaultyStore store(clock, [&](std::string_view name) {
    if (name == "find") ++finds;
    return testing::Fault::none;
  });
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  TestCall asked =
      post("/v1/messages", R"({"source":"mine","messageId":"1","topic":"mine.a","payload":1})");
  for (const TokenLimits& limits : {TokenLimits{}, TokenLimits{.sources = {"mine"}}}) {
    asked.limits = limits;
    EXPECT_EQ(under_test.call(asked).status, 200);
    EXPECT_EQ(finds, 0);
  }
  asked.limits = {.topics = {"mine.*"}};
  EXPECT_EQ(under_test.call(asked).status, 200);
  EXPECT_EQ(finds, 1);
}

TEST_P(LimitedTokens, TheNameOfATokenIsASourceThatItMustBeAllowed) {
  TestCall unnamed = post("/v1/messages", R"({"topic":"mine.a","payload":1})");
  unnamed.principal = "mine";
  EXPECT_EQ(status(unnamed, of_source_), 200);
  unnamed.principal = "another";
  EXPECT_EQ(status(unnamed, of_source_), kForbidden);
}

}  // namespace

}  // namespace oncebox::server
