// What is refused, and that the error says where without quoting a value.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "expect_error.hpp"
#include "oncebox/wire/key_json.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/queue_json.hpp"

namespace oncebox::wire {
namespace {

const MessageDefaults kDefaults{.make_id = [](std::size_t) { return MessageId("m"); }};

struct BadInput {
  std::string json;
  std::string error;
  ErrorCode code = ErrorCode::invalid_argument;
};

template <class Read>
void expect_refused(const std::vector<BadInput>& inputs, Read read) {
  for (const BadInput& input : inputs) {
    EXPECT_EQ(expect_error(input.code, [&] { (void)read(input.json); }), input.error) << input.json;
  }
}

TEST(BadInput, OfOneMessage) {
  const std::string too_deep =
      R"({"topic":"t","payload":)" + std::string(32, '[') + std::string(32, ']') + "}";
  expect_refused(
      {
          {"", "JSON was expected, but there is nothing"},
          {" ", "the text is not JSON: it ends too early"},
          {"{", "the text is not JSON: it ends too early"},
          {R"({"topic":"t"} x)", "the text is not JSON: extra data at byte 14"},
          {R"({"topic":"t",})", "the text is not JSON: syntax error at byte 13"},
          {R"({"topic":nan})", "the text is not JSON: syntax error at byte 9"},
          {"{\"topic\":\"\xff\"}", "the text is not JSON: syntax error at byte 10"},
          {too_deep,
           "the JSON is nested more than 32 levels deep; a string may hold what is nested deeper"},
          {"[]", "an object was expected"},
          {"\"topic\"", "an object was expected"},
          {"{}", "topic: this field is missing"},
          {R"({"topic":null})", "topic: this field is missing"},
          {R"({"topic":5})", "topic: a string was expected"},
          {R"({"topic":""})", "topic: the topic is empty; give it a value"},
          {R"({"topic":"a\u0000"})",
           "topic: the topic is not valid UTF-8 or contains a NUL character"},
          {R"({"topik":"t"})", "topik: this field is not known; did you mean topic?"},
          {R"({"topic":"t","MessageID":"x"})",
           "MessageID: this field is not known; did you mean messageId?"},
          {R"({"topic":"t","zzzzzzzzzz":1})",
           "zzzzzzzzzz: this field is not known; known are source, messageId, topic, payload, "
           "payloadBase64, headers, hash, priority, partitionKey, dueAt, expiresAt"},
          {R"({"topic":"t","topic":"t"})", "topic: this field is there twice"},
          {R"({"topic":"t","\u0074opic":"t"})", "topic: this field is there twice"},
          {R"({"topic":"t","payload":1,"payload":1})", "payload: this field is there twice"},
          {R"({"topic":"t","payload":"","headers":[]})", "headers: an object was expected"},
          {R"({"topic":"t","payload":"","headers":{"a":1}})", "headers.a: a string was expected"},
          {R"({"topic":"t","payload":"","headers":{"a":"1","a":"2"}})",
           "headers.a: this header is there twice"},
          {R"({"topic":"t","payload":"","hash":"abc"})",
           "hash: a hash is written as its algorithm, a colon and hexadecimal digits: "
           "sha256:1f4a…"},
          {R"({"topic":"t","payload":"","hash":"md5:0g"})",
           "hash: a hash is written as its algorithm, a colon and hexadecimal digits: "
           "sha256:1f4a…"},
          {R"({"topic":"t","payload":"","hash":"md5:"})",
           "hash: a content hash has 1 to 64 bytes, not 0"},
          {R"({"topic":"t","payload":"","priority":101})",
           "priority: a whole number from -100 to 100 was expected", ErrorCode::out_of_range},
          {R"({"topic":"t","payload":"","priority":1.5})",
           "priority: a whole number from -100 to 100 was expected", ErrorCode::out_of_range},
          {R"({"topic":"t","payload":"","priority":"high"})",
           "priority: a whole number was expected"},
          {R"({"topic":"t","payloadBase64":"?"})",
           "payloadBase64: this is not base64 (standard alphabet, with padding)"},
      },
      [](const std::string& json) { return read_message(json, kDefaults); });
}

TEST(BadInput, OfManyMessagesNamesThePlace) {
  expect_refused(
      {
          {R"({"topic":"t"})", "an array was expected"},
          {R"([{"topic":"t","payload":""},{"topic":"t","payload":""},{}])",
           "[2].topic: this field is missing"},
          {R"([{"topic":"t","payload":""},5])", "[1]: an object was expected"},
          {R"([{"topic":"t","payload":"","headers":{"x":null}}])",
           "[0].headers.x: a string was expected"},
      },
      [](const std::string& json) { return read_messages(json, kDefaults); });
}

TEST(BadInput, ABatchHasALimit) {
  std::string json = "[";
  for (std::size_t item = 0; item <= limits::kMaxBatchItems; ++item) {
    json += item == 0 ? "" : ",";
    json += R"({"topic":"t","payload":""})";
  }
  EXPECT_EQ(expect_error(ErrorCode::invalid_argument,
                         [&] { (void)read_messages(json + "]", kDefaults); }),
            "there are more than 10000 items; send fewer at once");
}

TEST(BadInput, OfSettlements) {
  RecordProperty("requirement", "IBX-067");
  const std::string owner = R"("owner":"0190a0b0-0000-7000-8000-000000000001",)";
  const std::string item = R"({"source":"s","messageId":"m",)" + owner;
  expect_refused(
      {
          {"{}", "items: this field is missing"},
          {R"({"items":{}})", "items: an array was expected"},
          {R"({"items":[{"source":"s","messageId":"m","verdict":"Ack"}]})",
           "items[0].owner: this field is missing"},
          {R"({"items":[{"source":"s","messageId":"m","verdict":"Ack","owner":"me"}]})",
           "items[0].owner: not a UUID; expected 36 characters such as "
           "0190163d-8694-739b-aea5-966c26f8ad91"},
          {R"({"items":[)" + item + R"("verdict":"ack"}]})",
           "items[0].verdict: this word is not known; did you mean Ack?"},
          {R"({"items":[)" + item + R"("verdict":"Ack","error":"x"}]})",
           "items[0].error: only Abandon and Fail have an error"},
          {R"({"items":[)" + item + R"("verdict":"Fail"}]})",
           "items[0].error: this field is missing"},
          {R"({"items":[)" + item + R"("verdict":"Fail","error":null}]})",
           "items[0].error: this field is missing"},
          {R"({"items":[)" + item + R"("verdict":"Fail","delaySeconds":1}]})",
           "items[0].delaySeconds: only Abandon and Release have a delay"},
          {R"({"items":[)" + item + R"("verdict":"Abandon","delaySeconds":-1}]})",
           "items[0].delaySeconds: the number of seconds is negative or too large",
           ErrorCode::out_of_range},
          {R"({"items":[)" + item + R"("verdict":"Abandon","delaySeconds":1e999}]})",
           "items[0].delaySeconds: the number of seconds is negative or too large",
           ErrorCode::out_of_range},
          {R"({"items":[)" + item + R"("verdict":"Abandon","delaySeconds":"1"}]})",
           "items[0].delaySeconds: a number of seconds was expected"},
          {R"({"items":[)" + item + R"("delivery":-1,"verdict":"Ack"}]})",
           "items[0].delivery: a whole number of at least 0 was expected", ErrorCode::out_of_range},
          {R"({"items":[)" + item + R"("verdict":"Ack"},{"sauce":"s"}]})",
           "items[1].sauce: this field is not known; did you mean source?"},
      },
      [](const std::string& json) { return read_settlements(json); });
}

TEST(BadInput, OfAClaim) {
  expect_refused(
      {
          {R"({"limit":18446744073709551616})", "limit: a whole number of at least 0 was expected",
           ErrorCode::out_of_range},
          {R"({"topics":["a"]})", "topics: an object was expected"},
          {R"({"topics":{"only":"a"}})", "topics.only: an array was expected"},
          {R"({"topics":{"only":["a",5]}})", "topics.only[1]: a string was expected"},
          {R"({"topics":{"only":[{"exakt":"a"}]}})",
           "topics.only[0].exakt: this field is not known; did you mean exact?"},
          {R"({"lease":5})",
           "lease: this field is not known; known are owner, worker, leaseSeconds, limit, "
           "maxBytes, topics, waitSeconds"},
      },
      [](const std::string& json) { return read_claim(json); });
}

TEST(BadInput, OfKeys) {
  expect_refused(
      {
          {R"({"items":[{"key":"a","leaseSeconds":301}]})",
           "items[0].leaseSeconds: the lease of a key is 301000 ms; it must be from 1000 to 300000 "
           "ms",
           ErrorCode::out_of_range},
          {R"({"items":[{"key":"a"},{"key":""}]})",
           "items[1].key: the idempotency key is empty; give it a value"},
          {R"({"items":[{"key":"a","onFailed":"Retri"}]})",
           "items[0].onFailed: this word is not known; did you mean Retry?"},
      },
      [](const std::string& json) { return read_begins(json, defaults::kKeyRetention); });
}

TEST(BadInput, OfAFilter) {
  expect_refused(
      {
          {R"({"status":"Dead"})", "status: this field is not known; known are filter"},
          {R"({"filter":{"status":["Deed"]}})",
           "filter.status[0]: this word is not known; did you mean Dead?"},
          {R"({"filter":{"dueAt":1}})",
           "filter.dueAt: this field is not known; known are status, state, waitingFor, topic, "
           "source, messageId, partitionKey, errorContains, firstSeenFrom, firstSeenUntil, "
           "finishedFrom, finishedUntil, expiresAfter"},
      },
      [](const std::string& json) { return read_filter(json); });
}

TEST(BadInput, NoErrorQuotesAValue) {
  const std::vector<std::string> inputs = {
      R"({"topic":"t","payload":{"card":"SECRET"},"headers":{"contentType":"text/plain"}})",
      R"({"topic":"t","payload":"SECRET",})",
      R"({"topic":"t","payload":{"card":"SECRET"})",
      R"({"topic":"t","payloadBase64":"SECRET"})",
      R"({"topic":{"x":"SECRET"}})",
      R"({"topic":"t","payload":"","headers":{"x":["SECRET"]}})",
      R"({"topic":"t","payload":"","hash":"SECRET"})",
      R"({"topic":"t","payload":"","dueAt":"SECRET"})",
      R"({"topic":"t","payload":"SECRET","payload":"SECRET"})",
  };
  for (const std::string& json : inputs) {
    const std::string error =
        expect_error(ErrorCode::invalid_argument, [&] { (void)read_message(json, kDefaults); });
    EXPECT_EQ(error.find("SECRET"), std::string::npos) << error;
  }
}

TEST(BadInput, LongNamesAreCutInErrors) {
  const std::string json = R"({"topic":"t",")" + std::string(100'000, 'x') + R"(":1})";
  const std::string error =
      expect_error(ErrorCode::invalid_argument, [&] { (void)read_message(json, kDefaults); });
  EXPECT_LT(error.size(), 300U);
}

TEST(BadInput, OfAnAnswerIsAnErrorToo) {
  expect_refused(
      {{R"({"results":[{"status":"Perhaps"}]})",
        "results[0].status: this word is not known; known are Settled, Superseded, LeaseLost"},
       {R"({"result":[]})", "results: this field is missing"},
       {"", "JSON was expected, but there is nothing"}},
      [](const std::string& json) { return read_settled(json); });
}

TEST(Numbers, SecondsAreKeptToTheMillisecond) {
  const auto wait_of = [](const std::string& seconds) {
    return read_claim(R"({"waitSeconds":)" + seconds + "}").wait.count();
  };
  EXPECT_EQ(wait_of("0"), 0);
  EXPECT_EQ(wait_of("-0.0"), 0);
  EXPECT_EQ(wait_of("0.001"), 1);
  EXPECT_EQ(wait_of("1.2345"), 1235);
  EXPECT_EQ(wait_of("1e1"), 10'000);
  EXPECT_EQ(wait_of("59.9994"), 59'999);
}

TEST(Numbers, WholeNumbersMayBeWrittenWithAFractionOfZero) {
  EXPECT_EQ(read_claim(R"({"limit":5.0})").request.limit, 5U);
  EXPECT_EQ(read_claim(R"({"limit":1e3})").request.limit, 1'000U);
}

TEST(Numbers, WholeNumbersAreNotRounded) {
  EXPECT_EQ(read_claim(R"({"limit":9007199254740993})").request.limit, 9'007'199'254'740'993U);
  expect_error(ErrorCode::out_of_range,
               [] { (void)read_claim(R"({"limit":9007199254740993.0})"); });
}

}  // namespace
}  // namespace oncebox::wire
