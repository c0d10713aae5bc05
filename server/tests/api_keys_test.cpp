#include <gtest/gtest.h>

#include "api_fixture.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

std::string key_body(const std::string& key, const std::string& more = "") {
  return R"({"key":)" + json::serialize(json::value(json::string_view(key))) + more + "}";
}

std::string with_lease(const std::string& key, const json::value& begun) {
  return key_body(key, R"(,"leaseId":)" + json::serialize(begun.at("leaseId")));
}

class InboxContract : public ApiTest {
 protected:
  explicit InboxContract(const ServerOptions& options = quiet_options()) : ApiTest(options) {}

  json::value begin(const std::string& key, const std::string& more = "") {
    const Response response = call(post("/v1/inbox/try-begin", key_body(key, more)));
    EXPECT_EQ(response.status, 200) << response.body;
    return json_of(response);
  }
  json::value status_of(const std::string& escaped_key) {
    const Response response = call(get("/v1/inbox/" + escaped_key));
    EXPECT_EQ(response.status, 200) << response.body;
    return json_of(response);
  }
};
ONCEBOX_OVER_EACH_STORE(InboxContract);

TEST_P(InboxContract, TryBeginAcquiresAndThenIsBusyAlsoForTheSameOwner) {
  RecordProperty("requirement", "KIN-03");
  const json::value first = begin("k", R"(,"owner":"me")");
  EXPECT_EQ(first.at("status"), "Acquired");
  EXPECT_TRUE(first.at("leaseId").is_string());
  EXPECT_EQ(first.at("expiresAt"), format_rfc3339(clock_.now() + std::chrono::seconds{60}).c_str());
  const json::value again = begin("k", R"(,"owner":"me")");
  EXPECT_EQ(again.at("status"), "Busy");
  EXPECT_FALSE(again.as_object().contains("leaseId"));
}

TEST_P(InboxContract, AnExpiredLeaseCanBeAcquiredWithANewLeaseId) {
  RecordProperty("requirement", "KIN-03");
  const json::value first = begin("k", R"(,"leaseSeconds":1)");
  clock_.advance(std::chrono::seconds{1});
  const json::value second = begin("k");
  EXPECT_EQ(second.at("status"), "Acquired");
  EXPECT_NE(second.at("leaseId"), first.at("leaseId"));
  EXPECT_EQ(status_of("k").at("attempts"), 2);
}

TEST_P(InboxContract, ALeaseIsFromOneToThreeHundredSeconds) {
  RecordProperty("requirement", "KIN-03");
  for (const std::string seconds : {"0", "0.999", "301", "-1", "\"60\"", "1e9"}) {
    const Response response =
        call(post("/v1/inbox/try-begin", key_body("k", R"(,"leaseSeconds":)" + seconds)));
    EXPECT_EQ(response.status, 400) << seconds;
  }
  EXPECT_EQ(begin("low", R"(,"leaseSeconds":1)").at("status"), "Acquired");
  EXPECT_EQ(begin("high", R"(,"leaseSeconds":300)").at("status"), "Acquired");
}

TEST_P(InboxContract, MarkProcessedEndsTheWorkAndLaterCallersSeeIt) {
  RecordProperty("requirement", "KIN-04");
  const json::value begun = begin("k");
  const TestCall mark = post("/v1/inbox/mark-processed", with_lease("k", begun));
  EXPECT_EQ(json_of(call(mark)), json::parse(R"({"status":"Processed"})"));
  EXPECT_EQ(json_of(call(mark)).at("status"), "Processed") << "repeating it is safe";
  EXPECT_EQ(begin("k").at("status"), "Processed");
}

TEST_P(InboxContract, MarkProcessedUnderALostLeaseSaysSo) {
  RecordProperty("requirement", "KIN-04");
  const json::value first = begin("k");
  clock_.advance(std::chrono::seconds{60});
  EXPECT_EQ(begin("k").at("status"), "Acquired");
  EXPECT_EQ(json_of(call(post("/v1/inbox/mark-processed", with_lease("k", first)))).at("status"),
            "LeaseLost");
}

TEST_P(InboxContract, MarkProcessedWithoutLeaseIsUnconditionalAndCreatesTheKey) {
  RecordProperty("requirement", "KIN-04");
  (void)begin("held");
  for (const std::string key : {"held", "unknown", "unknown"}) {
    EXPECT_EQ(json_of(call(post("/v1/inbox/mark-processed", key_body(key)))).at("status"),
              "Processed");
    EXPECT_EQ(status_of(key).at("status"), "Processed");
  }
}

TEST_P(InboxContract, ReleaseGivesTheKeyBack) {
  RecordProperty("requirement", "KIN-05");
  const json::value begun = begin("k");
  const TestCall release = post("/v1/inbox/release", with_lease("k", begun));
  EXPECT_EQ(json_of(call(release)), json::parse(R"({"status":"Released"})"));
  EXPECT_EQ(status_of("k").at("status"), "Released");
  EXPECT_EQ(begin("k").at("status"), "Acquired");
  EXPECT_EQ(json_of(call(release)).at("status"), "LeaseLost");
  EXPECT_EQ(json_of(call(post("/v1/inbox/release", with_lease("other", begun)))).at("status"),
            "Unknown");
  ASSERT_EQ(call(post("/v1/inbox/mark-processed", key_body("k"))).status, 200);
  EXPECT_EQ(json_of(call(release)).at("status"), "Processed");
  EXPECT_EQ(call(post("/v1/inbox/release", key_body("k"))).status, 400) << "the lease is needed";
}

TEST_P(InboxContract, GetTellsTheStateOfAKey) {
  RecordProperty("requirement", "KIN-06");
  EXPECT_EQ(status_of("k").at("status"), "Unknown");
  const std::string first_seen = format_rfc3339(clock_.now());
  (void)begin("k");
  const json::value held = status_of("k");
  EXPECT_EQ(held.at("status"), "InProgress");
  EXPECT_EQ(held.at("attempts"), 1);
  EXPECT_EQ(held.at("firstSeen"), first_seen.c_str());
  EXPECT_EQ(held.at("lastSeen"), first_seen.c_str());
  EXPECT_EQ(held.at("leaseUntil"), format_rfc3339(clock_.now() + std::chrono::seconds{60}).c_str());
  const json::value begun = json_of(call(post("/v1/keys/begin", R"({"items":[{"key":"f"}]})")));
  const std::string lease = begun.at("results").at(0).at("leaseId").as_string().c_str();
  ASSERT_EQ(call(post("/v1/keys/fail",
                      R"({"items":[{"key":"f","error":"no","leaseId":")" + lease + R"("}]})"))
                .status,
            200);
  EXPECT_EQ(status_of("f").at("status"), "Failed");
}

TEST_P(InboxContract, AKeyMayHoldAnyTextAndIsComparedByteByByte) {
  RecordProperty("requirement", "KIN-06");
  const std::vector<std::string> keys{"bus:group:alias:id",
                                      "a/b",
                                      "/leading",
                                      "trailing/",
                                      "a//b",
                                      "a%2Fb",
                                      " space ",
                                      "space",
                                      "ünïcödé",
                                      "u\u0308",
                                      "ü",
                                      "a?b#c&d=e+f",
                                      "Case",
                                      "case",
                                      "try-begin",
                                      "release",
                                      "..",
                                      "a/../b",
                                      "日本",
                                      "back\\slash",
                                      "\"quote\"",
                                      "tab\there"};
  for (const std::string& key : keys) EXPECT_EQ(begin(key).at("status"), "Acquired") << key;
  for (const std::string& key : keys) {
    EXPECT_EQ(begin(key).at("status"), "Busy") << key;
    EXPECT_EQ(status_of(wire::percent_encode(key)).at("attempts"), 1) << key;
  }
  EXPECT_EQ(status_of("bus:group:alias:id").at("attempts"), 1) << "a colon needs no escape";
  EXPECT_EQ(status_of("a/b").at("attempts"), 1) << "nor does a slash";
  EXPECT_EQ(status_of("a%2fb").at("attempts"), 1);
  EXPECT_EQ(status_of("space%20").at("status"), "Unknown") << "keys are never trimmed";
}

TEST_P(InboxContract, OutcomesAre200AndOnlyMalformedRequestsAre400) {
  RecordProperty("requirement", "KIN-07");
  const std::string longest(1025, 'k');
  for (const std::string path :
       {"/v1/inbox/try-begin", "/v1/inbox/mark-processed", "/v1/inbox/release"}) {
    for (const std::string& body :
         {std::string(""), std::string("{}"), std::string("[]"), std::string("nonsense"),
          std::string(R"({"key":""})"), std::string(R"({"key":7})"),
          std::string(R"({"key":"k","leaseId":"x"})"), std::string(R"({"key":"k","bogus":1})"),
          key_body(longest), std::string(R"({"key":"nul\u0000"})")}) {
      const Response response = call(post(path, body));
      EXPECT_EQ(response.status, 400) << path << " " << body.substr(0, 60);
      EXPECT_FALSE(problem_code(response).empty());
    }
    TestCall other = post(path, key_body("k"));
    other.fields = {{"Content-Type", "text/plain"}};
    EXPECT_EQ(call(other).status, 415);
  }
  EXPECT_EQ(call(get("/v1/inbox/" + longest)).status, 400);
}

TEST_P(InboxContract, AKeyIsKeptForItsRetention) {
  RecordProperty("requirement", "KIN-09");
  ASSERT_EQ(call(post("/v1/inbox/mark-processed", key_body("k"))).status, 200);
  clock_.advance(defaults::kKeyRetention - Duration{1});
  EXPECT_EQ(status_of("k").at("status"), "Processed");
  clock_.advance(Duration{1});
  EXPECT_EQ(status_of("k").at("status"), "Unknown");
}

TEST_P(InboxContract, EachStoreHasItsOwnKeys) {
  (void)begin("k");
  EXPECT_EQ(json_of(call(get("/v1/stores/second/inbox/k"))).at("status"), "Unknown");
  EXPECT_EQ(json_of(call(post("/v1/stores/second/inbox/try-begin", key_body("k")))).at("status"),
            "Acquired");
}

class StrictInbox : public InboxContract {
 protected:
  StrictInbox() : InboxContract(options()) {}
  static ServerOptions options() {
    ServerOptions strict = quiet_options();
    strict.strict_inbox = true;
    strict.retention.keys = std::chrono::days{7};
    return strict;
  }
};
ONCEBOX_OVER_EACH_STORE(StrictInbox);

TEST_P(StrictInbox, MarkProcessedNeedsTheLease) {
  RecordProperty("requirement", "KIN-04");
  const Response refused = call(post("/v1/inbox/mark-processed", key_body("k")));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(problem_detail(refused).find("leaseId"), std::string::npos);
  const json::value begun = begin("k");
  EXPECT_EQ(json_of(call(post("/v1/inbox/mark-processed", with_lease("k", begun)))).at("status"),
            "Processed");
}

TEST_P(StrictInbox, TheRetentionIsTheConfiguredOne) {
  RecordProperty("requirement", "KIN-09");
  const json::value begun = begin("k");
  ASSERT_EQ(call(post("/v1/inbox/mark-processed", with_lease("k", begun))).status, 200);
  clock_.advance(std::chrono::days{7});
  EXPECT_EQ(status_of("k").at("status"), "Unknown");
}

TEST_P(StrictInbox, TheRetentionIsTheConfiguredOneForBatchesToo) {
  RecordProperty("requirement", "KIN-09");
  ASSERT_EQ(call(post("/v1/keys/begin", R"({"items":[{"key":"begun"}]})")).status, 200);
  ASSERT_EQ(call(post("/v1/keys/complete",
                      R"({"items":[{"key":"done"},{"key":"kept","retentionSeconds":864000}]})"))
                .status,
            200);
  clock_.advance(std::chrono::days{7});
  EXPECT_EQ(status_of("begun").at("status"), "Unknown");
  EXPECT_EQ(status_of("done").at("status"), "Unknown");
  EXPECT_EQ(status_of("kept").at("status"), "Processed") << "what a caller says of a key holds";
}

/// What the inbox contract and a batch of one say of the same thing.
class KeyWords : public InboxContract {
 protected:
  json::value batch(const std::string& name, const json::value& item) {
    const json::value body =
        name == "find" ? json::value{{"keys", {item.at("key")}}} : json::value{{"items", {item}}};
    return json_of(call(post("/v1/keys/" + name, json::serialize(body)))).at("results").at(0);
  }
  json::value single(const std::string& name, const json::value& item) {
    return json_of(call(post("/v1/inbox/" + name, json::serialize(item))));
  }
};
ONCEBOX_OVER_EACH_STORE(KeyWords);

TEST_P(KeyWords, AreTheSameOneByOneAndInBatches) {
  RecordProperty("requirement", "KIN-03,KIN-04,KIN-05,KIN-06");
  const json::value contract = single("try-begin", {{"key", "a"}});
  const json::value begun = batch("begin", {{"key", "b"}});
  for (const char* word : {"status", "leaseUntil"}) EXPECT_EQ(contract.at(word), begun.at(word));
  EXPECT_EQ(contract.at("expiresAt"), contract.at("leaseUntil"));

  EXPECT_EQ(single("release", {{"key", "none"}, {"leaseId", begun.at("leaseId")}}),
            batch("release", {{"key", "none"}, {"leaseId", begun.at("leaseId")}}));
  EXPECT_EQ(single("release", {{"key", "a"}, {"leaseId", contract.at("leaseId")}}),
            batch("release", {{"key", "b"}, {"leaseId", begun.at("leaseId")}}));
  EXPECT_EQ(single("mark-processed", {{"key", "a"}, {"leaseId", contract.at("leaseId")}}),
            batch("complete", {{"key", "b"}, {"leaseId", begun.at("leaseId")}}));
  EXPECT_EQ(single("mark-processed", {{"key", "a"}}), batch("complete", {{"key", "b"}}));

  EXPECT_EQ(status_of("none"), batch("find", {{"key", "none"}}));
  const json::value state = status_of("a");
  const json::value found = batch("find", {{"key", "a"}});
  for (const auto& member : state.as_object()) EXPECT_EQ(found.at(member.key()), member.value());
}

class KeyBatches : public ApiTest {};
ONCEBOX_OVER_EACH_STORE(KeyBatches);

TEST_P(KeyBatches, BeginCompleteFindAndForget) {
  const json::value begun = json_of(call(
      post("/v1/keys/begin", R"({"items":[{"key":"a","owner":"w"},{"key":"b"},{"key":"a"}]})")));
  EXPECT_EQ(begun.at("results").at(0).at("status"), "Acquired");
  EXPECT_EQ(begun.at("results").at(1).at("status"), "Acquired");
  EXPECT_EQ(begun.at("results").at(2).at("status"), "Busy");
  const std::string lease_a = begun.at("results").at(0).at("leaseId").as_string().c_str();
  const std::string lease_b = begun.at("results").at(1).at("leaseId").as_string().c_str();

  const json::value extended = json_of(call(
      post("/v1/keys/extend", R"({"items":[{"key":"a","leaseSeconds":200,"leaseId":")" + lease_a +
                                  R"("},{"key":"a","leaseId":")" + lease_b + R"("}]})")));
  EXPECT_EQ(extended.at("results").at(0).at("leaseUntil"),
            format_rfc3339(clock_.now() + std::chrono::seconds{200}).c_str());
  EXPECT_EQ(extended.at("results").at(1), json::parse(R"({"status":"LeaseLost"})"));

  EXPECT_EQ(json_of(call(post("/v1/keys/complete",
                              R"({"items":[{"key":"a","resultBase64":"aGk=","leaseId":")" +
                                  lease_a + R"("},{"key":"b","leaseId":")" + lease_a + R"("}]})"))),
            json::parse(R"({"results":[{"status":"Processed"},{"status":"LeaseLost"}]})"));
  EXPECT_EQ(json_of(call(post("/v1/keys/release",
                              R"({"items":[{"key":"b","leaseId":")" + lease_b + R"("}]})"))),
            json::parse(R"({"results":[{"status":"Released"}]})"));

  const json::value found =
      json_of(call(post("/v1/keys/find", R"({"keys":["a","b","none"]})"))).at("results");
  EXPECT_EQ(found.at(0).at("status"), "Processed");
  EXPECT_EQ(found.at(0).at("resultBase64"), "aGk=");
  EXPECT_EQ(found.at(0).at("owner"), "w");
  EXPECT_EQ(found.at(1).at("status"), "Released");
  EXPECT_EQ(found.at(2), json::parse(R"({"status":"Unknown","attempts":0})"));

  EXPECT_EQ(json_of(call(post("/v1/keys/cleanup", ""))), json::parse(R"({"count":0})"));
  clock_.advance(std::chrono::days{31});
  EXPECT_EQ(json_of(call(post("/v1/keys/cleanup", R"({"limit":1})"))),
            json::parse(R"({"count":1})"));
  EXPECT_EQ(json_of(call(post("/v1/keys/cleanup", "{}"))), json::parse(R"({"count":1})"));
}

TEST_P(KeyBatches, FindAnswersNoMoreThanAClaimAndSaysSo) {
  store_->keys().complete({.key = "a", .result = std::string(limits::kMaxResultBytes, 'x')});
  std::string names = R"("none","a")";
  for (int i = 0; i < 200; ++i) names += R"(,"a")";
  const json::value found = json_of(call(post("/v1/keys/find", R"({"keys":[)" + names + "]}")));
  EXPECT_EQ(found.at("results").as_array().size(), 17U);
  EXPECT_EQ(found.at("truncated"), true);
}

TEST_P(KeyBatches, BeginAnswersNoMoreResultsThanAClaimAndSaysOfWhichKeys) {
  RecordProperty("requirement", "R-38");
  constexpr std::size_t kItems = 64;
  constexpr std::size_t kRoom = limits::kMaxBegunResultBytes / limits::kMaxResultBytes;
  store_->keys().complete({.key = "a", .result = std::string(limits::kMaxResultBytes, 'x')});
  std::string items = R"({"key":"a"})";
  for (std::size_t i = 1; i < kItems; ++i) items += R"(,{"key":"a"})";
  const Response response = call(post("/v1/keys/begin", R"({"items":[)" + items + "]}"));
  EXPECT_LT(response.body.size(), 2 * limits::kMaxBegunResultBytes);
  const json::value begun = json_of(response);
  const json::array& results = begun.at("results").as_array();
  ASSERT_EQ(results.size(), kItems);
  for (std::size_t i = 0; i < kItems; ++i) {
    const json::object& result = results[i].as_object();
    EXPECT_EQ(result.at("status"), "Processed");
    EXPECT_EQ(result.contains("resultBase64"), i < kRoom) << i;
    EXPECT_EQ(result.contains("resultLeftOut"), i >= kRoom) << i;
  }
  EXPECT_EQ(results.back().at("resultLeftOut"), true);
}

TEST_P(KeyBatches, AFailedKeyCanBeSuppressed) {
  const json::value begun = json_of(call(post("/v1/keys/begin", R"({"items":[{"key":"k"}]})")));
  const std::string lease = begun.at("results").at(0).at("leaseId").as_string().c_str();
  EXPECT_EQ(
      json_of(call(post("/v1/keys/fail", R"({"items":[{"key":"k","error":"broken","leaseId":")" +
                                             lease + R"("}]})"))),
      json::parse(R"({"results":[{"status":"Failed"}]})"));
  const json::value again =
      json_of(call(post("/v1/keys/begin", R"({"items":[{"key":"k","onFailed":"Suppress"}]})")));
  EXPECT_EQ(again.at("results").at(0).at("status"), "Failed");
  EXPECT_EQ(again.at("results").at(0).at("error"), "broken");
}

TEST_P(KeyBatches, RefuseBadBodies) {
  for (const std::string name : {"begin", "complete", "fail", "release", "extend", "find"}) {
    for (const std::string body : {"", "[]", "nonsense", R"({"bogus":[]})",
                                   R"({"items":[{"key":""}]})", R"({"keys":[7]})"}) {
      EXPECT_EQ(call(post("/v1/keys/" + name, body)).status, 400) << name << " " << body;
    }
  }
  EXPECT_EQ(call(post("/v1/keys/cleanup", R"({"limit":0})")).status, 400);
  EXPECT_EQ(call(post("/v1/keys/find?x=1", R"({"keys":["a"]})")).status, 400);
}

}  // namespace

}  // namespace oncebox::server
