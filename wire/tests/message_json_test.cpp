// The shapes of messages and records, as examples, and what becomes of payloads.
#include "oncebox/wire/message_json.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "noon.hpp"

namespace oncebox::wire {
namespace {

using namespace std::string_literals;
using namespace std::chrono_literals;

const OwnerToken kSomeOwner = OwnerToken::parse("0190a0b0-0000-7000-8000-000000000001");

MessageDefaults defaults() {
  return {.make_id = [](std::size_t place) { return MessageId("made-" + std::to_string(place)); }};
}

Message read(std::string_view json) { return read_message(json, defaults()); }

// A message with this content, as it is read back after it was written.
Message through_the_wire(const Message& message) { return read(write_message(message)); }

Message with_payload(Payload payload, Headers headers = {}) {
  return {.key = {"shop", "1"},
          .topic = "t",
          .payload = std::move(payload),
          .headers = std::move(headers)};
}

TEST(MessageJson, TheSmallestMessageIsATopicAndAPayload) {
  const Message expected{.key = {"http", "made-0"}, .topic = "order.created", .payload = "x"};
  EXPECT_EQ(read(R"({"topic": "order.created", "payload": "x"})"), expected);
}

TEST(MessageJson, EveryFieldIsWrittenAndRead) {
  const Message message{.key = {"shop", "42"},
                        .topic = "order.created",
                        .payload = R"({"total": 1.50})",
                        .headers = {{"contentType", "application/json"}, {"x \"y\"", "z"}},
                        .hash = ContentHash("md5", "\x01\xab"),
                        .priority = -5,
                        .partition_key = "customer-7",
                        .due_at = kNoon,
                        .expires_at = kNoon + 1500ms};
  const std::string json =
      R"({"source":"shop","messageId":"42","topic":"order.created","payload":{"total": 1.50},)"
      R"("headers":{"contentType":"application/json","x \"y\"":"z"},"hash":"md5:01ab",)"
      R"("priority":-5,"partitionKey":"customer-7","dueAt":"2026-01-31T12:00:00.000Z",)"
      R"("expiresAt":"2026-01-31T12:00:01.500Z"})";
  EXPECT_EQ(write_message(message), json);
  EXPECT_EQ(read(json), message);
}

TEST(MessageJson, AFieldThatIsNullIsLeftOut) {
  EXPECT_EQ(read(R"({"topic": "t", "messageId": null, "headers": null, "hash": null, "dueAt": null,
                     "priority": null, "partitionKey": null,
                     "payloadBase64": null, "payload": ""})"),
            read(R"({"topic": "t", "payload": ""})"));
}

TEST(MessageJson, NamesMayBeEscaped) {
  EXPECT_EQ(
      read("{\"\\u0074opic\": \"gr\\u00fc\\u00df\\ud83d\\ude00\\n\", \"payload\": \"\"}").topic,
      "grüß😀\n");
}

TEST(MessageJson, DefaultHeadersFillInWhatIsMissing) {
  MessageDefaults given = defaults();
  given.source = "elsewhere";
  given.headers = {{"traceparent", "default"}, {"idempotencyKey", "k"}};
  const Message message =
      read_message(R"({"topic": "t", "payload": "", "headers": {"traceparent": "own"}})", given);
  EXPECT_EQ(message.key.source, "elsewhere");
  EXPECT_EQ(message.headers, (Headers{{"traceparent", "own"}, {"idempotencyKey", "k"}}));
}

TEST(MessageJson, WithoutSomebodyWhoMakesIdsTheIdMustBeThere) {
  EXPECT_EQ(
      expect_error(ErrorCode::invalid_argument,
                   [] { (void)read_message(R"({"topic": "t","payload":""})", MessageDefaults{}); }),
      "messageId: this field is missing");
}

TEST(MessageJson, ManyMessagesAreAnArray) {
  const std::vector<Message> messages = read_messages(
      R"( [ {"topic": "a", "payload": 1}, {"topic": "b", "messageId": "own", "payload": 2} ] )",
      defaults());
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].key.message_id, "made-0");
  EXPECT_EQ(messages[1].key.message_id, "own");
  EXPECT_EQ(read_messages(write_messages(messages), defaults()), messages);
  EXPECT_TRUE(read_messages("[]", defaults()).empty());
}

// Payloads ----------------------------------------------------------------------------------------

TEST(PayloadJson, AValueKeepsTheBytesWithWhichItWasWritten) {
  for (const std::string& value :
       {R"({ "b" : 1.0,"a":[1e400 , 123456789012345678901234567890, -0] , "a" : 2 })"s,
        "{\n  \"pretty\": [\n  ]\n}"s, R"([ "}\"]{" , "\\" ])"s, "0.10"s, "true"s,
        R"({"u":"\u0000\/é"})"s}) {
    const Message message = read(R"({"topic":"t","payload" :)" + value + " }");
    EXPECT_EQ(message.payload.bytes(), value);
    EXPECT_EQ(message.headers.content_type(), "application/json");
    EXPECT_NE(write_message(message).find("\"payload\":" + value + ","), std::string::npos)
        << "it comes back as it was sent";
    EXPECT_EQ(through_the_wire(message), message);
  }
}

TEST(PayloadJson, AStringStandsForItsOwnText) {
  const Message message = read(R"({"topic":"t","payload":"a\u0000\"b\" \ud83d\ude00"})");
  EXPECT_EQ(message.payload.bytes(), "a\0\"b\" 😀"s);
  EXPECT_EQ(message.headers.content_type(), std::nullopt);
  EXPECT_EQ(through_the_wire(message), message);
}

TEST(PayloadJson, NoPayloadIsRefusedAndNoBytesAreTheEmptyString) {
  RecordProperty("requirement", "IBX-018");
  for (const std::string rest : {"", R"(,"payload":null)", R"(,"payloadBase64":null)",
                                 R"(,"payload":null,"payloadBase64":null)"}) {
    EXPECT_EQ(expect_error(ErrorCode::invalid_argument,
                           [&] { (void)read(R"({"topic":"t")" + rest + "}"); }),
              "payload: this is missing or null; for no bytes send \"\", for the JSON value null "
              "\"null\"");
  }
  EXPECT_EQ(read(R"({"topic":"t","payload":""})").payload.bytes(), "");
  EXPECT_EQ(read(R"({"topic":"t","payloadBase64":""})").payload.bytes(), "");
}

TEST(PayloadJson, TheJsonValueNullGoesThroughAsAString) {
  const Message null = with_payload("null", {{"contentType", "application/json"}});
  EXPECT_NE(write_message(null).find(R"("payload":"null")"), std::string::npos);
  EXPECT_EQ(through_the_wire(null), null);
}

TEST(PayloadJson, BytesThatHappenToBeTextAreMarkedAsBytes) {
  const Message text = read(R"({"topic":"t","payloadBase64":"Zm9v"})");
  EXPECT_EQ(text.payload.bytes(), "foo");
  EXPECT_EQ(text.headers.content_type(), "application/octet-stream");
  EXPECT_NE(write_message(text).find(R"("payloadBase64":"Zm9v")"), std::string::npos);

  const Message bytes = read(R"({"topic":"t","payloadBase64":"//4="})");
  EXPECT_EQ(bytes.payload.bytes(), "\xff\xfe");
  EXPECT_TRUE(bytes.headers.empty()) << "nothing else could be meant";
  EXPECT_EQ(through_the_wire(bytes), bytes);
}

TEST(PayloadJson, AContentTypeOfTheSenderStays) {
  for (const std::string type : {"application/json; charset=utf-8", "application/cloudevents+json",
                                 "Application/JSON", " application/json "}) {
    const Message message =
        read(R"({"topic":"t","payload":[1],"headers":{"contentType":")" + type + "\"}}");
    EXPECT_EQ(message.headers.content_type(), type);
    EXPECT_EQ(through_the_wire(message), message);
    EXPECT_NE(write_message(message).find(R"("payload":[1])"), std::string::npos);
  }
}

TEST(PayloadJson, AValueDoesNotGoWithATypeThatIsNotJson) {
  for (const std::string type : {"text/plain", "+json", "application/jsonx", ""}) {
    const std::string text = expect_error(ErrorCode::invalid_argument, [&] {
      (void)read(R"({"topic":"t","payload":{"secret":1},"headers":{"contentType":")" + type +
                 "\"}}");
    });
    EXPECT_EQ(text,
              "payload: a JSON value does not go with a contentType that is not JSON; send it as a "
              "string or as payloadBase64");
  }
}

TEST(PayloadJson, WhatCannotStandAsJsonIsWrittenAsText) {
  const Headers json{{"contentType", "application/json"}};
  for (const std::string bytes : {"\"a string\"", " {}", "{} ", "{", "", "[1,]", "\"\\ud800\"",
                                  "nul", "{}{}", "[\x01]", "1\n", "01"}) {
    const Message message = with_payload(bytes, json);
    EXPECT_EQ(through_the_wire(message), message) << bytes;
  }
}

TEST(PayloadJson, DeepNestingFitsIntoAnArrayOfMessagesOrBecomesText) {
  const Headers json{{"contentType", "application/json"}};
  for (int depth = 1; depth < 100; ++depth) {
    const std::string bytes = std::string(static_cast<std::size_t>(depth), '[') +
                              std::string(static_cast<std::size_t>(depth), ']');
    const std::vector<Message> messages = {with_payload(bytes, json)};
    EXPECT_EQ(read_messages(write_messages(messages), defaults()), messages) << depth;
    const MessagePage page{.records = {{.key = messages[0].key, .message = messages[0]}}};
    EXPECT_EQ(read_page(write_page(page, ListPayloads::include)).records, page.records) << depth;
  }
}

TEST(PayloadJson, TextAndBytesAtOnceAreRefused) {
  EXPECT_EQ(expect_error(ErrorCode::invalid_argument,
                         [] { (void)read(R"({"topic":"t","payload":1,"payloadBase64":"AA=="})"); }),
            "payloadBase64: there is a payload already; send one of the two");
}

// Records -----------------------------------------------------------------------------------------

MessageRecord full_record() {
  return {
      .key = {"shop", "42"},
      .status = Status::processing,
      .state = State::waiting,
      .waiting_for = WaitingFor::partition,
      .message = Message{.key = {"shop", "42"},
                         .topic = "order.created",
                         .payload = "text",
                         .hash = ContentHash("md5", "\x01")},
      .hash = ContentHash("md5", "\x01"),
      .history = {.attempt = 1,
                  .deliveries = 2,
                  .lapses = 3,
                  .duplicates = 4,
                  .content_version = 5,
                  .first_seen_at = kNoon,
                  .last_seen_at = kNoon + 1s,
                  .last_error = "no \"luck\""},
      .lease = MessageLease{kSomeOwner, DeliveryNumber{18'446'744'073'709'551'615U}, kNoon + 30s},
      .eligible_at = kNoon + 2s,
      .finished_at = kNoon + 3s,
      .revivals = {.count = 1, .last_at = kNoon + 4s, .last_reason = "fixed"}};
}

TEST(RecordJson, EverythingIsOnOneLevel) {
  const std::string json =
      R"({"source":"shop","messageId":"42","topic":"order.created","payload":"text",)"
      R"("hash":"md5:01","priority":0,"status":"Processing","state":"Waiting",)"
      R"("waitingFor":"Partition","attempt":1,"deliveries":2,)"
      R"("lapses":3,"duplicates":4,"contentVersion":5,"firstSeen":"2026-01-31T12:00:00.000Z",)"
      R"("lastSeen":"2026-01-31T12:00:01.000Z","lastError":"no \"luck\"",)"
      R"("owner":"0190a0b0-0000-7000-8000-000000000001","delivery":18446744073709551615,)"
      R"("lockedUntil":"2026-01-31T12:00:30.000Z","eligibleAt":"2026-01-31T12:00:02.000Z",)"
      R"("finishedAt":"2026-01-31T12:00:03.000Z","revivals":{"count":1,)"
      R"("lastAt":"2026-01-31T12:00:04.000Z","lastReason":"fixed"}})";
  EXPECT_EQ(write_record(full_record()), json);
  EXPECT_EQ(read_record(json), full_record());
}

TEST(RecordJson, AKeyThatWasOnlyObservedHasNoTopic) {
  const MessageRecord seen{.key = {"shop", "1"},
                           .hash = ContentHash::sha256_of("x"),
                           .history = {.first_seen_at = kNoon, .last_seen_at = kNoon}};
  const std::string json = write_record(seen);
  EXPECT_EQ(json.find("topic"), std::string::npos);
  EXPECT_EQ(json.find("payload"), std::string::npos);
  EXPECT_EQ(read_record(json), seen);
}

TEST(RecordJson, APayloadCanBeLeftOut) {
  const std::string json = write_record(full_record(), ListPayloads::omit);
  EXPECT_EQ(json.find("payload"), std::string::npos);
  MessageRecord expected = full_record();
  expected.message->payload = {};
  EXPECT_EQ(read_record(json), expected);
}

TEST(RecordJson, APageHasItsRecordsAndTheNextPlace) {
  const MessagePage page{.records = {full_record(), full_record()}, .next = Cursor("a\"b")};
  const MessagePage again = read_page(write_page(page, ListPayloads::include));
  EXPECT_EQ(again.records, page.records);
  EXPECT_EQ(again.next, page.next);

  EXPECT_EQ(write_page({}), R"({"messages":[]})");
  EXPECT_EQ(read_page(R"({"messages":[]})").next, std::nullopt);
}

TEST(RecordJson, FieldsOfANewerServerAreIgnored) {
  std::string json = write_record(full_record());
  json.insert(1, R"("colour":{"deep":[1]},"source2":"x",)");
  EXPECT_EQ(read_record(json), full_record());
}

}  // namespace
}  // namespace oncebox::wire
