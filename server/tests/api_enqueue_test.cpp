#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>

#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "oncebox/wire/queue_json.hpp"
#include "openapi/openapi.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

class EnqueueRoute : public ApiTest {};
ONCEBOX_OVER_EACH_STORE(EnqueueRoute);

constexpr const char* kTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST_P(EnqueueRoute, AcceptsOneMessageAndSaysSoOnceItIsStored) {
  const Response response = call(post(
      "/v1/messages",
      R"({"source":"shop","messageId":"m1","topic":"order.created","payload":{"total": 1.50}})"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json_of(response),
            json::parse(R"({"source":"shop","messageId":"m1","status":"Accepted"})"));
  EXPECT_EQ(record("m1").message->payload.bytes(), R"({"total": 1.50})");
  EXPECT_TRUE(record("m1").hash) << "the payload's hash is made by the inbox";
}

TEST_P(EnqueueRoute, RecognisesADuplicate) {
  enqueue("m1");
  const Response again = call(
      post("/v1/messages",
           R"({"source":"shop","messageId":"m1","topic":"order.created","payload":{"id":"m1"}})"));
  EXPECT_EQ(json_of(again).at("status"), "Duplicate");
}

TEST_P(EnqueueRoute, NamesAMessageWithoutIdAndSource) {
  const json::value answer = json_of(call(post("/v1/messages", R"({"topic":"t","payload":1})")));
  EXPECT_EQ(answer.at("source"), "http");
  EXPECT_EQ(answer.at("messageId").as_string().size(), 36U) << "a UUID";
}

TEST_P(EnqueueRoute, TakesTheIdempotencyKeyAsTheMessageId) {
  TestCall call_with_key = post("/v1/messages", R"({"topic":"t","payload":1})");
  call_with_key.fields.push_back({"Idempotency-Key", "key 1"});
  EXPECT_EQ(json_of(call(call_with_key)).at("status"), "Accepted");
  const json::value again = json_of(call(call_with_key));
  EXPECT_EQ(again.at("status"), "Duplicate");
  EXPECT_EQ(again.at("messageId"), "key 1");
  const auto stored = store_->inbox().find(MessageKey{"http", "key 1"});
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->message->headers.idempotency_key(), "key 1");
}

TestCall with_key(TestCall call, std::string key, std::string principal = "shop") {
  call.fields.push_back({"Idempotency-Key", std::move(key)});
  call.principal = std::move(principal);
  return call;
}

TEST_P(EnqueueRoute, TheSourceOfAMessageWithoutOneIsTheNameOfTheToken) {
  for (const std::string path : {"/v1/messages", "/v1/outbox/messages"}) {
    const TestCall one = post(path, R"({"topic":"t","payload":1})");
    const TestCall many = post(path, R"([{"topic":"t","payload":1}])");
    EXPECT_EQ(json_of(call(with_key(one, "k"))).at("source"), "shop");
    EXPECT_EQ(json_of(call(with_key(many, "k"))).at("results").at(0).at("source"), "shop");
    EXPECT_EQ(json_of(call(with_key(one, "k", "anonymous"))).at("source"), "http");
  }
  TestCall lines = with_key(post("/v1/messages", R"({"topic":"t","payload":1})"), "lines");
  lines.fields.front() = {"Content-Type", "application/x-ndjson"};
  EXPECT_EQ(json_of(call(lines)).at("accepted"), 1);
  EXPECT_TRUE(store_->inbox().find(MessageKey{"shop", "lines/0"}));
}

TEST_P(EnqueueRoute, TwoCallersWithOneIdempotencyKeyHaveAMessageEach) {
  const TestCall first = post("/v1/messages", R"({"topic":"t","payload":"of the shop"})");
  const TestCall second = post("/v1/messages", R"({"topic":"t","payload":"of the bank"})");
  EXPECT_EQ(json_of(call(with_key(first, "1"))).at("status"), "Accepted");
  EXPECT_EQ(json_of(call(with_key(second, "1", "bank"))).at("status"), "Accepted");
  const auto payload_of = [&](const char* source) {
    return store_->inbox().find(MessageKey{source, "1"})->message->payload.bytes();
  };
  EXPECT_EQ(payload_of("shop"), "of the shop");
  EXPECT_EQ(payload_of("bank"), "of the bank");
}

TEST_P(EnqueueRoute, OtherContentUnderAnIdempotencyKeyIsAConflict) {
  for (const std::string path :
       {"/v1/messages", "/v1/outbox/messages", "/v1/stores/second/messages?missingHash=Leave"}) {
    SCOPED_TRACE(path);
    EXPECT_EQ(call(with_key(post(path, R"({"topic":"t","payload":1})"), "k")).status, 200);
    const Response other = call(with_key(post(path, R"({"topic":"t","payload":2})"), "k"));
    EXPECT_EQ(other.status, 409) << other.body;
    EXPECT_EQ(problem_code(other), "conflict");
    EXPECT_NE(problem_detail(other).find("use a new key"), std::string::npos);
    EXPECT_EQ(json_of(call(with_key(post(path, R"({"topic":"t","payload":1})"), "k"))).at("status"),
              "Duplicate");
  }
  const auto stored = store_->inbox().find(MessageKey{"shop", "k"});
  EXPECT_EQ(stored->message->payload.bytes(), "1") << "nothing was changed";
}

TEST_P(EnqueueRoute, OtherContentWithAnIdempotencyKeyIsAConflictUnlessSourceAndIdAreSaid) {
  const auto send = [&](const std::string& names, int payload) {
    const std::string body =
        "{" + names + R"("topic":"t","payload":)" + std::to_string(payload) + "}";
    return call(with_key(post("/v1/messages", body), "k"));
  };
  const std::string id = R"("messageId":"m",)";
  const std::string source = R"("source":"other",)";
  for (const std::string& names : {std::string(), id, source}) {
    EXPECT_EQ(json_of(send(names, 1)).at("status"), "Accepted") << names;
    EXPECT_EQ(send(names, 2).status, 409) << names;
    EXPECT_EQ(json_of(send(names, 1)).at("status"), "Duplicate") << names;
  }
  EXPECT_EQ(json_of(send(source + id, 1)).at("status"), "Accepted");
  EXPECT_EQ(json_of(send(source + id, 2)).at("status"), "Updated");
  const TestCall without_key = post("/v1/messages", "{" + id + R"("topic":"t","payload":3})");
  EXPECT_EQ(json_of(call(without_key)).at("status"), "Accepted") << "of another source";
  TestCall replaced = without_key;
  replaced.body = "{" + id + R"("topic":"t","payload":4})";
  EXPECT_EQ(json_of(call(replaced)).at("status"), "Updated");
}

TEST_P(EnqueueRoute, AnotherTopicUnderAnIdempotencyKeyIsAConflict) {
  for (const std::string path :
       {"/v1/messages", "/v1/outbox/messages", "/v1/stores/second/messages?missingHash=Leave"}) {
    SCOPED_TRACE(path);
    const auto send = [&](const std::string& topic) {
      return call(with_key(post(path, R"({"topic":")" + topic + R"(","payload":1})"), "k"));
    };
    EXPECT_EQ(json_of(send("charge")).at("status"), "Accepted");
    const Response refund = send("refund");
    EXPECT_EQ(refund.status, 409) << refund.body;
    EXPECT_EQ(problem_code(refund), "conflict");
    EXPECT_EQ(json_of(send("charge")).at("status"), "Duplicate");
  }
}

TEST_P(EnqueueRoute, TheFirstMessageUnderAnIdempotencyKeyStandsHoweverItIsSent) {
  TestCall as_line = post("/v1/messages", "");
  as_line.fields.front() = {"Content-Type", "application/x-ndjson"};
  const auto send_alone = [&](const std::string& message) {
    return call(with_key(post("/v1/messages", message), "alone"));
  };
  const auto send_in_array = [&](const std::string& message) {
    return call(with_key(post("/v1/messages", "[" + message + "]"), "array"));
  };
  const auto send_as_line = [&](const std::string& message) {
    as_line.body = message;
    return call(with_key(as_line, "line"));
  };
  struct Form {
    std::string id;
    std::function<Response(const std::string&)> send;
    std::string rejected;
    std::string duplicate;
  };
  for (const Form& form : {Form{"alone", send_alone, R"("conflict")", R"("Duplicate")"},
                           Form{"array/0", send_in_array, R"("Rejected")", R"("Duplicate")"},
                           Form{"line/0", send_as_line, R"("rejected":1)", R"("duplicate":1)"}}) {
    SCOPED_TRACE(form.id);
    EXPECT_EQ(form.send(R"({"topic":"charge","payload":1})").status, 200);
    const auto stored = [&] { return store_->inbox().find(MessageKey{"shop", form.id}).value(); };
    MessageRecord expected = stored();
    const auto expect_unchanged = [&](const std::string& message, const std::string& outcome) {
      clock_.advance(std::chrono::seconds{1});
      const Response response = form.send(message);
      EXPECT_NE(response.body.find(outcome), std::string::npos) << message << response.body;
      expected.history.last_seen_at = clock_.now();
      EXPECT_EQ(stored(), expected) << message;
    };
    expect_unchanged(R"({"topic":"refund","payload":1})", form.rejected);
    expect_unchanged(R"({"topic":"charge","payload":2})", form.rejected);
    expect_unchanged(R"({"topic":"charge","payload":2,"hash":"md5:01ab"})", form.rejected);
    expected.history.duplicates = 1;
    expect_unchanged(R"({"topic":"charge","payload":1,"priority":9,"partitionKey":"p",)"
                     R"("headers":{"traceparent":"another"},"dueAt":"2030-01-01T00:00:00.000Z",)"
                     R"("expiresAt":"2031-01-01T00:00:00.000Z"})",
                     form.duplicate);
  }
}

TEST_P(EnqueueRoute, OfManyOtherContentUnderAnIdempotencyKeyIsRejected) {
  const auto array = [](const std::string& payload) {
    return with_key(post("/v1/messages", R"([{"topic":"t","payload":)" + payload + "}]"), "k");
  };
  EXPECT_EQ(call(array("1")).status, 200);
  EXPECT_EQ(json_of(call(array("2"))).at("results").at(0).at("status"), "Rejected");
  TestCall lines =
      with_key(post("/v1/messages", R"({"topic":"t","payload":2})"
                                    "\n"
                                    R"({"source":"shop","messageId":"k/0","topic":"t","payload":3})"
                                    "\n"
                                    R"({"messageId":"k/0","topic":"t","payload":4})"),
               "k");
  lines.fields.front() = {"Content-Type", "application/x-ndjson"};
  const json::value summary = json_of(call(lines));
  EXPECT_EQ(summary.at("rejected"), 2);
  EXPECT_EQ(summary.at("updated"), 1) << "a line with source and id may replace a message";
}

TEST_P(EnqueueRoute, InAnArrayOnlyMessagesWithSourceAndIdAreNotHeldToTheIdempotencyKey) {
  const auto array = [](const std::string& payload) {
    return with_key(
        post("/v1/messages", R"([{"source":"shop","messageId":"a","topic":"t","payload":)" +
                                 payload + R"(},{"topic":"t","payload":)" + payload +
                                 R"(},{"source":"shop","messageId":"b","topic":"t","payload":)" +
                                 payload + R"(},{"messageId":"c","topic":"t","payload":)" +
                                 payload + "}]"),
        "k");
  };
  const auto statuses_of = [](const Response& response) {
    const json::value answer = json_of(response);
    std::vector<std::string> statuses;
    for (const json::value& result : answer.at("results").as_array()) {
      statuses.emplace_back(result.at("status").as_string());
    }
    return statuses;
  };
  using Statuses = std::vector<std::string>;
  EXPECT_EQ(statuses_of(call(array("1"))),
            (Statuses{"Accepted", "Accepted", "Accepted", "Accepted"}));
  EXPECT_EQ(statuses_of(call(array("2"))), (Statuses{"Updated", "Rejected", "Updated", "Rejected"}))
      << "as one message a line";
  EXPECT_EQ(store_->inbox().find(MessageKey{"shop", "k/1"})->message->payload.bytes(), "1");
  EXPECT_EQ(store_->inbox().find(MessageKey{"shop", "b"})->message->payload.bytes(), "2");
}

TEST(EnqueueLimits, AnArrayThatWasStoredInPartCanBeRepeated) {
  const testing::FakeClock clock;
  std::atomic<int> enqueues = 0;
  FaultyStore store(clock, [&](std::string_view name) {
    const bool fails = name == "enqueue" && ++enqueues == 2;
    return fails ? testing::Fault::before : testing::Fault::none;
  });
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  const TestCall array =
      with_key(post("/v1/messages", R"([{"source":"shop","messageId":"a","topic":"t","payload":1},)"
                                    R"({"topic":"t","payload":1}])"),
               "k");
  const Response part = under_test.call(array);
  EXPECT_EQ(problem_code(part), "outcome_unknown") << part.body;
  EXPECT_NE(problem_detail(part).find("1 of 2 messages were stored"), std::string::npos)
      << part.body;
  const json::value whole = json_of(under_test.call(array));
  EXPECT_EQ(whole.at("results").at(0).at("status"), "Duplicate");
  EXPECT_EQ(whole.at("results").at(1).at("status"), "Accepted");
}

TEST_P(EnqueueRoute, WhoSaysWhatOtherContentIsToDoGetsItUnderAnIdempotencyKeyToo) {
  EXPECT_EQ(call(with_key(post("/v1/messages", R"({"topic":"t","payload":1})"), "k")).status, 200);
  const auto status_of = [&](const std::string& policy) {
    return json_of(call(with_key(post("/v1/messages?onHashMismatch=" + policy,
                                      R"({"topic":"t","payload":2})"),
                                 "k")))
        .at("status");
  };
  EXPECT_EQ(status_of("Reject"), "Rejected");
  EXPECT_EQ(status_of("Warn"), "Updated");
}

TEST_P(EnqueueRoute, ReadsAnIdempotencyKeyThatIsAStructuredField) {
  TestCall quoted = post("/v1/messages", R"({"topic":"t","payload":1})");
  quoted.fields.push_back({"Idempotency-Key", R"("a \"b\" c")"});
  EXPECT_EQ(json_of(call(quoted)).at("messageId"), R"(a "b" c)");
}

TEST_P(EnqueueRoute, PrefersTheIdInTheBodyAndKeepsTheKeyAsAHeader) {
  TestCall both =
      post("/v1/messages", R"({"source":"shop","messageId":"own","topic":"t","payload":1})");
  both.fields.push_back({"Idempotency-Key", "the-key"});
  EXPECT_EQ(json_of(call(both)).at("messageId"), "own");
  EXPECT_EQ(record("own").message->headers.idempotency_key(), "the-key");
}

TEST_P(EnqueueRoute, RefusesAnIdempotencyKeyThatCannotBeAnId) {
  TestCall empty = post("/v1/messages", R"({"topic":"t","payload":1})");
  empty.fields.push_back({"Idempotency-Key", ""});
  EXPECT_EQ(problem_code(call(empty)), "invalid_argument");
  TestCall longest = post("/v1/messages", R"({"topic":"t","payload":1})");
  longest.fields.push_back({"Idempotency-Key", std::string(256, 'k')});
  EXPECT_EQ(call(longest).status, 400);
}

TEST_P(EnqueueRoute, RefusesAnIdempotencyKeyThatIsTooLongToBeStored) {
  RecordProperty("requirement", "R-38");
  const std::string message = R"({"messageId":"1","topic":"t","payload":1})";
  for (const std::string& body : {message, "[" + message + "]"}) {
    EXPECT_EQ(call(with_key(post("/v1/messages", body), std::string(1'024, 'k'))).status, 200);
    const Response refused = call(with_key(post("/v1/messages", body), std::string(1'025, 'k')));
    EXPECT_EQ(problem_code(refused), "invalid_argument");
    EXPECT_NE(problem_detail(refused).find("1024"), std::string::npos);
  }
  TestCall lines = with_key(post("/v1/messages", message), std::string(1'025, 'k'));
  lines.fields.front() = {"Content-Type", "application/x-ndjson"};
  EXPECT_EQ(problem_code(call(lines)), "invalid_argument");
}

TEST_P(EnqueueRoute, GivesEachMessageOfAnArrayAKeyOfItsOwn) {
  TestCall many = post("/v1/messages",
                       R"([{"topic":"t","payload":1},{"topic":"t","payload":2,
                            "headers":{"idempotencyKey":"mine"}}])");
  many.fields.push_back({"Idempotency-Key", "k"});
  const json::value answer = json_of(call(many));
  EXPECT_EQ(answer.at("results").at(0).at("messageId"), "k/0");
  EXPECT_EQ(answer.at("results").at(1).at("messageId"), "k/1");
  const auto first = store_->inbox().find(MessageKey{"http", "k/0"});
  const auto second = store_->inbox().find(MessageKey{"http", "k/1"});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->message->headers.idempotency_key(), "k/0");
  EXPECT_EQ(second->message->headers.idempotency_key(), "mine");
}

TEST_P(EnqueueRoute, HandsTheTraceOn) {
  TestCall traced =
      post("/v1/messages", R"({"source":"shop","messageId":"m","topic":"t","payload":""})");
  traced.fields.push_back({"traceparent", kTrace});
  ASSERT_EQ(call(traced).status, 200);
  EXPECT_EQ(record("m").message->headers.traceparent(), kTrace);
}

TEST_P(EnqueueRoute, LeavesOutATraceThatIsNone) {
  const std::string trace = kTrace;
  int id = 0;
  for (const std::string& bad :
       std::vector<std::string>{"nonsense", "ff" + trace.substr(2), trace + "-x", trace.substr(1),
                                "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"}) {
    const std::string name = "m" + std::to_string(id++);
    TestCall traced = post("/v1/messages", R"({"source":"shop","messageId":")" + name +
                                               R"(","topic":"t","payload":""})");
    traced.fields.push_back({"traceparent", bad});
    ASSERT_EQ(call(traced).status, 200);
    EXPECT_EQ(record(name).message->headers.traceparent(), std::nullopt) << bad;
  }
}

TEST_P(EnqueueRoute, StoresAnArrayInOneTransactionAndAnswersEach) {
  enqueue("known");
  const Response response = call(post("/v1/messages", R"([
      {"source":"shop","messageId":"a","topic":"t","payload":1},
      {"source":"shop","messageId":"known","topic":"order.created","payload":{"id":"known"}}])"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json_of(response).at("results").at(0).at("status"), "Accepted");
  EXPECT_EQ(json_of(response).at("results").at(1).at("status"), "Duplicate");
}

TEST_P(EnqueueRoute, StoresNothingOfAnArrayWithABadMessage) {
  const Response response = call(post("/v1/messages", R"([
      {"source":"shop","messageId":"a","topic":"t","payload":1},
      {"source":"shop","messageId":"b","topic":"","payload":""}])"));
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(problem_detail(response).find("[1].topic"), std::string::npos)
      << problem_detail(response);
  EXPECT_FALSE(store_->inbox().find(MessageKey{"shop", "a"}));
}

TEST_P(EnqueueRoute, AnswersAnEmptyArrayWithNothing) {
  EXPECT_EQ(json_of(call(post("/v1/messages", "[]"))), json::parse(R"({"results":[]})"));
}

TEST_P(EnqueueRoute, RefusesWhatIsNoMessage) {
  RecordProperty("requirement", "IBX-018");
  for (const std::string& body :
       {std::string(), std::string("nonsense"), std::string("7"), std::string("{}"),
        std::string(R"({"topic":7})"), std::string(R"({"topic":"t","payload":)"),
        std::string(R"({"topic":"t","payload":"","priority":1000})"), std::string("\xff\xfe"),
        std::string(R"({"topic":"t"})"), std::string(R"({"topic":"t","payload":null})"),
        std::string(R"([{"topic":"t","payload":""},{"topic":"t","payload":null}])")}) {
    const Response response = call(post("/v1/messages", body));
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_FALSE(problem_code(response).empty()) << body;
  }
}

TEST_P(EnqueueRoute, TakesJsonAsDeepAsTheDescriptionSaysAndTellsTheLimitBeyond) {
  const std::string said = "nested at most 32 levels deep";
  EXPECT_NE(embedded::openapi_json().find(said), std::string_view::npos);
  const auto message = [](std::size_t levels) {
    return R"({"topic":"t","payload":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  const auto line = [&](std::size_t levels) {
    TestCall ndjson = post("/v1/messages", message(levels) + "\n");
    ndjson.fields = {{"Content-Type", "application/x-ndjson"}};
    return call(ndjson);
  };
  EXPECT_EQ(call(post("/v1/messages", message(31))).status, 200);
  EXPECT_EQ(call(post("/v1/messages", "[" + message(30) + "]")).status, 200);
  EXPECT_NE(line(31).body.find(R"("accepted":1)"), std::string::npos) << line(31).body;
  const std::string limit = "nested more than 32 levels";
  for (const std::string& body : {message(32), "[" + message(31) + "]", message(10'000)}) {
    const Response refused = call(post("/v1/messages", body));
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(problem_detail(refused).find(limit), std::string::npos) << refused.body;
  }
  EXPECT_NE(line(32).body.find(limit), std::string::npos) << line(32).body;
}

TEST_P(EnqueueRoute, NamesAFieldThatItDoesNotKnow) {
  const Response response =
      call(post("/v1/messages", R"({"topic":"t","payload":1,"prioritty":3})"));
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(problem_detail(response).find("prioritty"), std::string::npos);
  EXPECT_EQ(json_of(response).at("requestId"), "test-request");
}

TEST_P(EnqueueRoute, RefusesABodyThatIsNotJson) {
  for (const std::string type : {"text/plain", "application/x-www-form-urlencoded",
                                 "application/json; charset=latin-1", "application/xml"}) {
    TestCall other = post("/v1/messages", R"({"topic":"t","payload":""})");
    other.fields = {{"Content-Type", type}};
    const Response response = call(other);
    EXPECT_EQ(response.status, 415) << type;
    EXPECT_EQ(problem_code(response), "unsupported_media_type");
  }
}

TEST_P(EnqueueRoute, TakesJsonByAnySpellingOfItsType) {
  for (const std::string type :
       {"Application/JSON", "application/json; charset=UTF-8", "application/json;charset=\"utf-8\"",
        " application/json ; boundary=x"}) {
    TestCall same = post("/v1/messages", R"({"topic":"t","payload":""})");
    same.fields = {{"Content-Type", type}};
    EXPECT_EQ(call(same).status, 200) << type;
  }
  TestCall untyped = post("/v1/messages", R"({"topic":"t","payload":""})");
  untyped.fields.clear();
  EXPECT_EQ(call(untyped).status, 200);
}

TEST_P(EnqueueRoute, FollowsTheQueryOnHashMismatch) {
  const std::string first = R"({"source":"shop","messageId":"m","topic":"t","payload":1})";
  const std::string other = R"({"source":"shop","messageId":"m","topic":"t","payload":2})";
  ASSERT_EQ(call(post("/v1/messages", first)).status, 200);
  const json::value rejected = json_of(call(post("/v1/messages?onHashMismatch=Reject", other)));
  EXPECT_EQ(rejected.at("status"), "Rejected");
  EXPECT_EQ(rejected.at("hashMismatch"), true);
  const json::value quarantined =
      json_of(call(post("/v1/messages?onHashMismatch=Quarantine", other)));
  EXPECT_EQ(quarantined.at("status"), "Quarantined");
  EXPECT_TRUE(quarantined.at("quarantinedAs").is_string());
  EXPECT_EQ(json_of(call(post("/v1/messages?onHashMismatch=Warn", other))).at("status"), "Updated");
  const std::string topic = R"({"source":"shop","messageId":"m","topic":"o","payload":2})";
  const json::value kept = json_of(call(post("/v1/messages?onHashMismatch=KeepFirst", topic)));
  EXPECT_EQ(kept.at("status"), "Rejected");
  EXPECT_FALSE(kept.as_object().contains("hashMismatch")) << "the payload is the same";
}

TEST_P(EnqueueRoute, FollowsTheQueryOnMissingHashes) {
  const std::string body = R"({"source":"shop","messageId":"m","topic":"t","payload":1})";
  ASSERT_EQ(call(post("/v1/messages?missingHash=Leave", body)).status, 200);
  EXPECT_FALSE(record("m").hash);
}

TEST_P(EnqueueRoute, FollowsTheQueryOnDeadMessages) {
  enqueue("m");
  store_->inbox().mark({.key = {"shop", "m"}, .as = MarkAs::dead, .error = "no"});
  const std::string body =
      R"({"source":"shop","messageId":"m","topic":"order.created","payload":{"id":"m"}})";
  EXPECT_EQ(json_of(call(post("/v1/messages", body))).at("status"), "DuplicateDead");
  EXPECT_EQ(json_of(call(post("/v1/messages?onDead=Revive", "[" + body + "]")))
                .at("results")
                .at(0)
                .at("status"),
            "Revived");
}

TEST_P(EnqueueRoute, RefusesAQueryThatItDoesNotKnow) {
  for (const std::string query :
       {"onDead=Maybe", "ondead=Keep", "onDead=Keep&onDead=Keep", "x=", "onHashMismatch="}) {
    const Response response = call(post("/v1/messages?" + query, R"({"topic":"t","payload":""})"));
    EXPECT_EQ(response.status, 400) << query;
  }
}

TEST(EnqueueLimits, APayloadAboveTheStoresLimitIsRefusedWithAClearText) {
  const testing::FakeClock clock;
  memory::MemoryStore store(clock, {.max_payload_bytes = 10});
  ApiUnderTest under_test(quiet_options(), {{"small", store}}, clock);
  const std::string body = R"({"topic":"t","payload":"more than ten bytes"})";
  for (const TestCall& call : {post("/v1/messages", body), post("/v1/messages", "[" + body + "]"),
                               post("/v1/outbox/messages", body)}) {
    const Response response = under_test.call(call);
    EXPECT_EQ(response.status, 400);
    EXPECT_NE(problem_detail(response).find("at most 10"), std::string::npos) << response.body;
  }
}

TEST(EnqueueLimits, AFullStoreIsAnswered503AndSaysWhenToComeBack) {
  const testing::FakeClock clock;
  memory::MemoryStore store(clock, {.max_messages = 1});
  ApiUnderTest under_test(quiet_options(), {{"small", store}}, clock);
  EXPECT_EQ(under_test.call(post("/v1/messages", R"({"topic":"t","payload":""})")).status, 200);
  const Response full = under_test.call(post("/v1/messages", R"({"topic":"t","payload":""})"));
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(problem_code(full), "overloaded");
  EXPECT_TRUE(full.fields.get("Retry-After"));
}

TEST_P(EnqueueRoute, ServesTheNamedStoreAndTheOutbox) {
  const std::string body = R"({"source":"shop","messageId":"m","topic":"t","payload":1})";
  EXPECT_EQ(json_of(call(post("/v1/stores/second/messages", body))).at("status"), "Accepted");
  EXPECT_FALSE(store_->inbox().find(MessageKey{"shop", "m"}));
  EXPECT_TRUE(second_->inbox().find(MessageKey{"shop", "m"}));
  EXPECT_EQ(json_of(call(post("/v1/outbox/messages", body))).at("status"), "Accepted");
  EXPECT_TRUE(store_->outbox().find(MessageKey{"shop", "m"}));
  EXPECT_EQ(json_of(call(post("/v1/stores/second/outbox/messages", "[" + body + "]")))
                .at("results")
                .at(0)
                .at("status"),
            "Accepted");
  EXPECT_TRUE(second_->outbox().find(MessageKey{"shop", "m"}));
  const Response unknown = call(post("/v1/stores/third/messages", body));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(problem_code(unknown), "not_found");
}

TEST_P(EnqueueRoute, StampsWhatGoesOutAsAnOutboxDoes) {
  RecordProperty("requirement", "MSG-04");
  const auto body = [](const std::string& id, const std::string& more) {
    return R"({"source":"shop","messageId":")" + id + R"(","topic":"t","payload":1)" + more + "}";
  };
  const std::string keyed = R"(,"partitionKey":"p")";
  const std::string own = R"(,"headers":{"messageId":"mine","timestamp":"then"})";
  TestCall lines = post("/v1/outbox/messages", body("line", keyed) + "\n");
  lines.fields = {{"Content-Type", "application/x-ndjson"}};
  for (const TestCall& sent :
       {post("/v1/outbox/messages", body("single", keyed)),
        post("/v1/outbox/messages?onDead=Revive", body("alone", keyed)),
        post("/v1/outbox/messages", "[" + body("array", keyed) + "]"), lines,
        post("/v1/outbox/messages", body("own", own)),
        post("/v1/outbox/messages?missingHeaders=Leave", body("left", keyed)),
        post("/v1/messages", body("in", keyed))}) {
    ASSERT_EQ(call(sent).status, 200) << sent.target;
  }
  const auto headers_of = [](QueueStore& queue, const char* id) {
    return queue.find(MessageKey{"shop", id})->message->headers;
  };
  for (const char* id : {"single", "alone", "array", "line"}) {
    const Headers headers = headers_of(store_->outbox(), id);
    EXPECT_EQ(headers.message_id(), id);
    EXPECT_EQ(headers.timestamp(), clock_.now()) << id;
    EXPECT_EQ(headers.partition_key(), "p") << id;
  }
  EXPECT_EQ(headers_of(store_->outbox(), "own").message_id(), "mine");
  EXPECT_EQ(headers_of(store_->outbox(), "own").get("timestamp"), "then");
  EXPECT_EQ(headers_of(store_->outbox(), "left").message_id(), std::nullopt);
  EXPECT_EQ(headers_of(store_->inbox(), "in").message_id(), std::nullopt);
}

/// Messages that come while one commits are stored by one call of the store.
void expect_shared_commit(QueueKind queue, const std::string& path, const std::string& key) {
  const testing::FakeClock clock;
  std::promise<void> first_came;
  std::promise<void> open;
  std::atomic<int> commits = 0;
  FaultyStore store(
      clock,
      [&, opened = open.get_future().share()](std::string_view name) {
        if (name == "enqueue" && commits++ == 0) {
          first_came.set_value();
          opened.wait();
        }
        return testing::Fault::none;
      },
      queue);
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  std::vector<std::shared_ptr<TestExchange>> sent;
  const auto send = [&] {
    TestCall call = post(path, R"({"topic":"t","payload":1})");
    if (!key.empty()) call = with_key(std::move(call), key + std::to_string(sent.size()));
    sent.push_back(under_test.begin(call));
  };
  send();
  first_came.get_future().wait();
  for (int i = 0; i < 5; ++i) send();
  open.set_value();
  for (const auto& exchange : sent) EXPECT_EQ(exchange->wait().status, 200);
  EXPECT_EQ(commits, 2);
}

TEST(SharedCommits, SingleMessagesForEitherQueueShareThem) {
  for (const std::string key : {"", "key"}) {
    expect_shared_commit(QueueKind::inbox, "/v1/messages", key);
    expect_shared_commit(QueueKind::outbox, "/v1/outbox/messages", key);
  }
}

TEST_P(EnqueueRoute, TakesALargeMessageWithoutHoldingUpASocket) {
  const std::string payload(300 << 10, 'x');
  const Response response =
      call(post("/v1/messages", R"({"source":"shop","messageId":"big","topic":"t","payload":")" +
                                    payload + R"("})"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(record("big").message->payload.size(), payload.size());
  EXPECT_EQ(call(post("/v1/messages", payload)).status, 400);
}

}  // namespace

}  // namespace oncebox::server
