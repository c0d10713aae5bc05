#include "oncebox/wire/edit_json.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox::wire {
namespace {

using namespace std::chrono_literals;

TEST(EditJson, CallHasOneForm) {
  const std::vector<EditedMessage> edits{{.key = {"shop", "1"}, .payload = R"({"amount":1})"},
                                         {.key = {"shop", "2"}, .payload = "\xff"}};
  const std::string json =
      R"({"items":[{"source":"shop","messageId":"1","payload":"{\"amount\":1}"},)"
      R"({"source":"shop","messageId":"2","payloadBase64":"/w=="}],)"
      R"("delaySeconds":1.5,"reason":"fixed"})";
  EXPECT_EQ(write_edit(edits, {.delay = 1'500ms, .reason = "fixed", .actor = "me"}), json)
      << "who asks is for the service to know";
  const EditCall again = read_edit(json);
  ASSERT_EQ(again.edits.size(), 2U);
  EXPECT_EQ(again.edits[0].key, edits[0].key);
  EXPECT_EQ(again.edits[0].payload, edits[0].payload);
  EXPECT_EQ(again.edits[1].payload, edits[1].payload);
  EXPECT_EQ(again.options.delay, 1'500ms);
  EXPECT_EQ(again.options.reason, "fixed");
  EXPECT_EQ(again.options.actor, "");
}

TEST(EditJson, PayloadMayBeAnyJsonValueAndMayBeEmptyButMustBeThere) {
  const auto payload_of = [](const std::string& member) {
    return read_edit(R"({"items":[{"source":"s","messageId":"1",)" + member + "}]}")
        .edits.front()
        .payload;
  };
  EXPECT_EQ(payload_of(R"("payload":{"a": 1})"), Payload(R"({"a": 1})"));
  EXPECT_EQ(payload_of(R"("payload":"")"), Payload());
  EXPECT_EQ(payload_of(R"("payloadBase64":"")"), Payload());
  for (const std::string json :
       {R"({"items":[{"source":"s","messageId":"1"}]})",
        R"({"items":[{"source":"s","messageId":"1","payload":null}]})",
        R"({"items":[{"source":"s","messageId":"1","payload":1,"payloadBase64":"AA=="}]})",
        R"({"items":[{"source":"s","payload":1}]})", R"({"reason":"x"})",
        R"({"items":[],"actor":"me"})",
        R"({"items":[{"source":"s","messageId":"1","payload":1,)"
        R"("headers":{}}]})"}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)read_edit(json); });
  }
}

TEST(EditJson, PastContentsComeBackAsTheyWere) {
  const TimePoint at = parse_rfc3339("2026-01-31T08:15:30.250Z");
  const std::vector<PastContent> contents{
      {.content_version = 1,
       .payload = "-1",
       .hash = ContentHash("crc", "\x01\x02"),
       .replaced_at = at,
       .replaced_by = "ops",
       .reason = "the sign"},
      {.content_version = 3, .payload = std::string("\0\xfe", 2), .replaced_at = at + 1s},
      {.content_version = 4, .payload = std::string("\0 x", 3), .replaced_at = at + 2s}};
  const std::string json = write_past_contents(contents);
  EXPECT_EQ(json.substr(0, json.find("},")),
            R"({"contents":[{"contentVersion":1,"payload":"-1","hash":"crc:0102",)"
            R"("replacedAt":"2026-01-31T08:15:30.250Z","replacedBy":"ops","reason":"the sign")");
  EXPECT_EQ(read_past_contents(json), contents);
  EXPECT_TRUE(read_past_contents(write_past_contents({})).empty());
}

}  // namespace
}  // namespace oncebox::wire
