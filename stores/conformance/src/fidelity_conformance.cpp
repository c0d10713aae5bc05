// What goes in comes out byte for byte: R-21, IBX-009 to IBX-012, IBX-015 to IBX-022, IBX-118.

#include <set>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

namespace {

std::string repeated(std::string_view text, std::size_t times) {
  std::string joined;
  for (std::size_t i = 0; i < times; ++i) joined += text;
  return joined;
}

std::string every_byte() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}

struct Script {
  std::string name;
  std::string character;
};

std::vector<Script> scripts() {
  return {{"ascii", "x"}, {"greek", "Ω"}, {"cjk", "漢"}, {"emoji", "😀"}, {"combining", "\u0301"}};
}

/// Names that some backend or client might trim, fold, normalise, unescape or take as a pattern.
std::vector<std::string> delicate_names() {
  return {"a",      "A",    "a ",     " a",         "  ",     "é",       "e\u0301", "É",
          "ß",      "ss",   "ı",      "i",          "İ",      "I",       "a%",      "a_",
          "a*",     "a'b",  "a\"b",   "a;--",       "a\\b",   "a/b",     "a%2Fb",   "a:b",
          "{a}",    "a\tb", "a\nb",   "a\r\nb",     "\u200B", "\uFEFFa", "0",       "00",
          "0.0",    "null", "NULL",   "true",       "1e3",    "1000",    "ﬁ",       "fi",
          "\u00A0", "\x7F", "\u2028", "\U0010FFFF", "\uFFFD", "$where",  "a.b",     "[a]"};
}

}  // namespace

class FidelityConformance : public StoreConformance {
 protected:
  /// The payload comes back by find, list and claim as it went in.
  void expect_kept(std::string_view id, const std::string& payload) {
    SCOPED_TRACE(id);
    ASSERT_EQ(enqueue(message(id, {.payload = payload})), EnqueueStatus::accepted);
    const auto same = [&](const std::optional<Message>& stored) {
      return stored && stored->payload.bytes() == payload;  // not EXPECT_EQ: too much to print
    };
    EXPECT_TRUE(same(record(id).message)) << "by find";
    const MessagePage page = queue_operator().list(
        {.filter = {.message_id = MessageId(id)}, .payloads = ListPayloads::include});
    ASSERT_EQ(page.records.size(), 1U);
    EXPECT_TRUE(same(page.records[0].message)) << "by list";
    const ClaimedMessage claimed = claim_one();
    EXPECT_TRUE(same(claimed.message)) << "by claim";
    EXPECT_EQ(settle(claimed), SettleStatus::settled);
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, FidelityConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(FidelityConformance, NamesOf255CodePointsAreKeptInEveryScript) {
  proves("IBX-011", "IBX-012", "IBX-020", "R-21");
  for (const Script& script : scripts()) {
    SCOPED_TRACE(script.name);
    const std::string longest = repeated(script.character, 255);
    const Message whole{.key = {longest, longest},
                        .topic = longest,
                        .payload = script.name,
                        .partition_key = PartitionKey(longest)};
    EXPECT_EQ(enqueue(whole), EnqueueStatus::accepted);
    EXPECT_EQ(enqueue(whole), EnqueueStatus::duplicate);
    EXPECT_EQ(record(longest, longest).message, whole);
    const std::vector<ClaimedMessage> claimed =
        claim({.owner = alice, .topics = {.only = {TopicPattern(longest)}}});
    ASSERT_EQ(claimed.size(), 1U);
    EXPECT_EQ(claimed[0].message, whole);
    EXPECT_EQ(queue_operator().count({.topic = TopicPattern(longest),
                                      .source = longest,
                                      .message_id = longest,
                                      .partition_key = longest}),
              1U);
    EXPECT_EQ(settle(claimed[0]), SettleStatus::settled);
  }
}

TEST_P(FidelityConformance, NamesThatDifferInTheirLastCharacterAreDifferent) {
  proves("R-21", "IBX-011");
  for (const Script& script : scripts()) {
    const std::string stem = repeated(script.character, 254);
    EXPECT_EQ(enqueue(message(stem + "1")), EnqueueStatus::accepted) << script.name;
    EXPECT_EQ(enqueue(message(stem + "2")), EnqueueStatus::accepted) << script.name;
    EXPECT_EQ(enqueue(message(stem)), EnqueueStatus::accepted) << script.name;
  }
}

TEST_P(FidelityConformance, NamesOf256CodePointsAreRejectedNeverCut) {
  proves("IBX-011", "IBX-012", "IBX-020", "R-21");
  for (const Script& script : scripts()) {
    const std::string too_long = repeated(script.character, 256);
    expect_refused("source in " + script.name, ErrorCode::invalid_argument,
                   [&] { queue().observe({.key = key("a", too_long)}); });
    expect_refused("message id in " + script.name, ErrorCode::invalid_argument,
                   [&] { enqueue(message(too_long)); });
    expect_refused("topic in " + script.name, ErrorCode::invalid_argument,
                   [&] { enqueue(message("a", {.topic = too_long})); });
    expect_refused("partition key in " + script.name, ErrorCode::invalid_argument,
                   [&] { enqueue(message("a", {.partition = PartitionKey(too_long)})); });
  }
}

TEST_P(FidelityConformance, EmptyNamesAreRejected) {
  proves("IBX-009", "IBX-010", "IBX-015", "IBX-016", "IBX-017", "R-21");
  expect_refused("source of an observation", ErrorCode::invalid_argument,
                 [&] { queue().observe({.key = key("a", "")}); });
  expect_refused("message id of an observation", ErrorCode::invalid_argument,
                 [&] { queue().observe({.key = key("")}); });
  expect_refused("source", ErrorCode::invalid_argument,
                 [&] { enqueue(message("a", {.source = ""})); });
  expect_refused("message id", ErrorCode::invalid_argument, [&] { enqueue(message("")); });
  expect_refused("topic", ErrorCode::invalid_argument,
                 [&] { enqueue(message("a", {.topic = ""})); });
  expect_refused("partition key", ErrorCode::invalid_argument,
                 [&] { enqueue(message("a", {.partition = PartitionKey("")})); });
}

TEST_P(FidelityConformance, InvalidUtf8AndNulInNamesAreRejected) {
  proves("R-21");
  const std::vector<std::string> bad{
      "\xFF",                  // no UTF-8 at all
      "a\x80",                 // a continuation byte alone
      "\xC3",                  // cut off
      "\xC0\xAF",              // overlong
      "\xED\xA0\x80",          // a surrogate
      "\xF4\x90\x80\x80",      // above U+10FFFF
      std::string("a\0b", 3),  // NUL within
      std::string("a\0", 2),   // NUL at the end
  };
  for (const std::string& text : bad) {
    expect_refused("source", ErrorCode::invalid_argument,
                   [&] { queue().observe({.key = key("a", text)}); });
    expect_refused("message id", ErrorCode::invalid_argument, [&] { enqueue(message(text)); });
    expect_refused("topic", ErrorCode::invalid_argument,
                   [&] { enqueue(message("a", {.topic = text})); });
    expect_refused("partition key", ErrorCode::invalid_argument,
                   [&] { enqueue(message("a", {.partition = PartitionKey(text)})); });
  }
}

TEST_P(FidelityConformance, MessageIdsAreComparedByteByByte) {
  proves("R-21", "IBX-001", "IBX-021");
  const std::vector<std::string> names = delicate_names();
  for (const std::string& name : names) {
    EXPECT_EQ(enqueue(message(name)), EnqueueStatus::accepted) << testing::PrintToString(name);
  }
  for (const std::string& name : names) {
    EXPECT_EQ(record(name).key, key(name));
    EXPECT_EQ(enqueue(message(name)), EnqueueStatus::duplicate) << testing::PrintToString(name);
  }
  EXPECT_EQ(claim_ids(), names);
}

TEST_P(FidelityConformance, SourcesAreComparedByteByByte) {
  proves("R-21", "IBX-001");
  for (const std::string& name : delicate_names()) {
    EXPECT_EQ(enqueue(message("a", {.source = name})), EnqueueStatus::accepted)
        << testing::PrintToString(name);
    EXPECT_EQ(queue_operator().count({.source = name}), 1U) << testing::PrintToString(name);
  }
}

TEST_P(FidelityConformance, TopicsAreComparedByteByByte) {
  proves("R-20", "R-21", "IBX-021");
  const std::vector<std::string> names = delicate_names();
  for (const std::string& name : names) enqueue(message("of " + name, {.topic = name}));
  EXPECT_EQ(queue_operator().stats().topics.size(), names.size());
  for (const std::string& name : names) {
    if (name.ends_with('*')) continue;  // as a pattern it means more than itself
    EXPECT_EQ(ids_of(claim({.owner = alice, .topics = {.only = {TopicPattern(name)}}})),
              std::vector<std::string>{"of " + name});
  }
}

TEST_P(FidelityConformance, EmptyPayloadIsAPayload) {
  proves("IBX-019");
  expect_kept("empty", "");
  EXPECT_EQ(enqueue(message("empty", {.payload = ""})), EnqueueStatus::duplicate_done);
}

TEST_P(FidelityConformance, BinaryPayloadsAreKept) {
  proves("IBX-022", "R-21");
  expect_kept("every byte", every_byte());
  expect_kept("every byte twice", every_byte() + every_byte());
  expect_kept("one NUL", std::string(1, '\0'));
  expect_kept("NUL at both ends", std::string("\0x\0", 3));
  expect_kept("no UTF-8", "\xC3\x28\xFF\xFE");
  expect_kept("line ends", "a\r\nb\nc\r");
  expect_kept("trailing spaces", "a   ");
}

TEST_P(FidelityConformance, PayloadFormatIsNobodysBusiness) {
  proves("IBX-022");
  expect_kept("cut JSON", "{\"total\": ");
  expect_kept("spaced JSON", "{ \"b\" : 1,\n \"a\" : 1.0e0 }");
}

TEST_P(FidelityConformance, PayloadOf16MiBIsKept) {
  proves("IBX-118", "R-21");
  std::string payload = repeated(every_byte(), (std::size_t{16} << 20) / 256);
  payload.front() = 'f';
  payload.back() = 'b';
  expect_kept("large", payload);
}

TEST_P(FidelityConformance, HeadersComeBackAsGiven) {
  proves("MSG-04", "R-21");
  Headers headers;
  for (int i = 0; i < 57; ++i) headers.set("x-" + std::to_string(i), std::to_string(i));
  headers.set("correlationId", "c-1").set("causationId", "m-0").set("empty", "");
  headers.set("Case", "upper").set("case", "lower");
  headers.set(repeated("Ω", 128), repeated("x", Headers::kMaxValueBytes));
  headers.set("quotes", "\" ' \\ {} , = \r\n\t 漢 😀");
  ASSERT_EQ(headers.size(), Headers::kMaxEntries);
  enqueue(message("a", {.headers = headers}));
  EXPECT_EQ(record("a").message->headers, headers);
  EXPECT_EQ(claim_one().message.headers, headers);
}

TEST_P(FidelityConformance, EverythingSurvivesReopening) {
  proves("IBX-013", "R-21");
  put_every_situation();
  enqueue(message("whole", {.topic = "Ω",
                            .payload = every_byte(),
                            .headers = {{"traceparent", "00-1-2-01"}},
                            .hash = hash_of("whole"),
                            .priority = -7,
                            .partition = "p",
                            .due_at = now() + 1h,
                            .expires_at = now() + 2h}));
  const std::vector<MessageKey> keys{key("dead")};
  queue_operator().revive(keys, {.delay = 1h, .reason = "try again"});
  store().outbox().enqueue(message("out"));
  const QueueDump before = dump();
  const QueueDump outbox_before = dump_of(store().outbox_operator());
  reopen();
  EXPECT_TRUE(unchanged(before, dump()));
  EXPECT_TRUE(unchanged(outbox_before, dump_of(store().outbox_operator())));
}

}  // namespace oncebox::conformance
