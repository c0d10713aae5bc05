#include "oncebox/wire/endpoint_json.hpp"

#include <gtest/gtest.h>

#include "oncebox/error.hpp"

namespace oncebox::wire {
namespace {

using namespace std::chrono_literals;

Endpoint whole() {
  return {.name = "crm",
          .url = "https://crm.example/hook",
          .topics = {"order.*", TopicPattern(Topic("star*"))},
          .secrets = {{"env:CRM", "literal:whsec_AAAA"}},
          .headers = {{"X-Team", "sales \"west\""}},
          .timeout = 1500ms,
          .allow_private = true,
          .disable_after = 48h};
}

TEST(EndpointJson, WhatIsSavedIsRead) {
  const EndpointSave read = read_endpoint_save(write_endpoint_save({whole(), "new customer"}));
  EXPECT_EQ(read.endpoint, whole());
  EXPECT_EQ(read.reason, "new customer");
}

TEST(EndpointJson, LeftOutFieldsHaveTheirDefaults) {
  const Endpoint read = read_endpoint_save(R"({"name":"a","url":"https://a.example"})").endpoint;
  EXPECT_EQ(read, (Endpoint{.name = "a", .url = "https://a.example"}));
}

TEST(EndpointJson, AnUnknownFieldOfARequestIsNamed) {
  try {
    (void)read_endpoint_save(R"({"name":"a","url":"https://a.example","topic":"t"})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("topics"), std::string::npos) << error.what();
  }
}

TEST(EndpointJson, AListIsReadWithEveryStatus) {
  const TimePoint at = parse_rfc3339("2026-01-31T08:15:30.250Z");
  const EndpointList list{
      .version = 7,
      .endpoints = {
          {whole(), {.failing_since = at, .last_failure = at, .disabled = {{at, "gone"}}}},
          {{.name = "z", .url = "http://z.example"}}}};
  const std::optional<EndpointList> read = read_endpoints(write_endpoints(list, 0));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->version, 7);
  EXPECT_EQ(read->endpoints, list.endpoints);
  EXPECT_EQ(write_endpoints(std::nullopt, 7), R"({"version":7})");
  EXPECT_EQ(read_endpoints(R"({"version":7})"), std::nullopt);
}

TEST(EndpointJson, ANoteAndItsAnswerAreRead) {
  const TimePoint at = parse_rfc3339("2026-01-31T08:15:30.250Z");
  const EndpointNote read = read_endpoint_note(
      write_endpoint_note({"crm", {EndpointEvent::Kind::disabled, at, "why"}}), TimePoint{});
  EXPECT_EQ(read.event.kind, EndpointEvent::Kind::disabled);
  EXPECT_EQ(read.event.at, at);
  EXPECT_EQ(read.event.reason, "why");
  EXPECT_EQ(read_endpoint_note(R"({"name":"crm","event":"Enabled"})", at).event.at, at);
  const EndpointNoted noted{true, {.disabled = {{at, "why"}}}};
  EXPECT_EQ(read_endpoint_noted(write_endpoint_noted(noted)), noted);
  EXPECT_EQ(read_endpoint_noted(write_endpoint_noted(std::nullopt)), std::nullopt);
}

TEST(EndpointJson, TheTrailGetsNeitherSecretsNorHeaders) {
  const std::string subject = audit_subject(whole());
  EXPECT_EQ(subject.find("whsec"), std::string::npos);
  EXPECT_EQ(subject.find("X-Team"), std::string::npos);
  EXPECT_NE(subject.find("crm.example"), std::string::npos);
}

TEST(EndpointJson, AResendAndItsAnswerAreRead) {
  const TimePoint at = parse_rfc3339("2026-01-31T08:15:30.250Z");
  const EndpointResend since =
      read_endpoint_resend(write_endpoint_resend({.sent = {.from = at, .until = at + 1h},
                                                  .per_second = 2.5,
                                                  .dry_run = true,
                                                  .reason = "why"}));
  EXPECT_EQ(since.sent.from, at);
  EXPECT_EQ(since.sent.until, at + 1h);
  EXPECT_EQ(since.per_second, 2.5);
  EXPECT_TRUE(since.dry_run);
  EXPECT_EQ(since.reason, "why");
  EXPECT_TRUE(read_endpoint_resend(write_endpoint_resend({.failed = true})).failed);
  const MessageKey key{"shop", "1"};
  EXPECT_EQ(read_endpoint_resend(write_endpoint_resend({.key = key})).key, key);
  const EndpointResent resent = read_endpoint_resent(write_endpoint_resent({3, 2, 1, true}));
  EXPECT_EQ(resent.count, 3U);
  EXPECT_EQ(resent.under_way, 2U);
  EXPECT_EQ(resent.not_wanted, 1U);
  EXPECT_TRUE(resent.dry_run);
}

TEST(EndpointJson, ANoticeTellsOfADisabledEndpoint) {
  const TimePoint at = parse_rfc3339("2026-01-31T08:15:30.250Z");
  EXPECT_EQ(write_disabled_endpoint({"main", "crm", {.disabled = {{at, "gone"}}}}, at),
            R"({"type":"oncebox.endpoint.disabled","timestamp":"2026-01-31T08:15:30.250Z",)"
            R"("data":{"store":"main","endpoint":"crm","disabledAt":"2026-01-31T08:15:30.250Z",)"
            R"("disabledReason":"gone"}})");
}

}  // namespace
}  // namespace oncebox::wire
