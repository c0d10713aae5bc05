#include "oncebox/causation.hpp"

#include <gtest/gtest.h>

#include <string>

#include "expect_error.hpp"

namespace oncebox {
namespace {

ClaimedMessage handled(Headers headers) {
  return {.message = {.key = {"shop", "order-1"}, .topic = "order.paid", .headers = headers},
          .history = {},
          .owner = OwnerToken::generate()};
}

TEST(Causation, MessageWithoutCorrelationBeginsTheChain) {
  RecordProperty("requirement", "MSG-04");
  const ClaimedMessage cause = handled({});
  const Headers headers = caused_by(cause);
  EXPECT_EQ(headers, (Headers{{"correlationId", "order-1"}, {"causationId", "order-1"}}));
}

TEST(Causation, CorrelationIsKeptAndTheHandledMessageIsTheCause) {
  RecordProperty("requirement", "MSG-04");
  const ClaimedMessage cause =
      handled({{"correlationId", "session-7"}, {"causationId", "click-3"}, {"color", "red"}});
  EXPECT_EQ(caused_by(cause, {{"contentType", "text/plain"}}),
            (Headers{{"correlationId", "session-7"},
                     {"causationId", "order-1"},
                     {"contentType", "text/plain"}}));
}

TEST(Causation, WhatTheSenderSetStays) {
  const ClaimedMessage cause = handled({{"correlationId", "session-7"}});
  const Headers own{{"correlationId", "mine"}, {"causationId", "me"}};
  EXPECT_EQ(caused_by(cause, own), own);
}

TEST(Causation, IdentityThatWasCopiedFromTheCauseIsNotPassedOn) {
  RecordProperty("requirement", "MSG-04");
  const ClaimedMessage cause =
      handled({{"messageId", "m-1"}, {"causationId", "click-3"}, {"color", "red"}});
  EXPECT_EQ(caused_by(cause, cause.message.headers),
            (Headers{{"correlationId", "order-1"}, {"causationId", "order-1"}, {"color", "red"}}));
  EXPECT_FALSE(caused_by(cause, {{"messageId", "order-1"}}).message_id()) << "its id in the store";
  EXPECT_EQ(caused_by(cause, {{"messageId", "mine"}}).message_id(), "mine");
  const int payload = 0;
  const Headers nameless{{"causationId", "click-3"}};
  EXPECT_EQ(caused_by(Envelope<int>{nameless, payload}, nameless), nameless)
      << "the nearest cause that is known";
}

TEST(Causation, ForwardedHeadersAreWithoutThoseOfOneMessage) {
  RecordProperty("requirement", "MSG-04");
  const Headers incoming{{"messageId", "m-1"},         {"causationId", "click-3"},
                         {"idempotencyKey", "pay-1"},  {"partitionKey", "ann"},
                         {"timestamp", "2026-01-01"},  {"quarantinedFrom", "m-0"},
                         {"correlationId", "sess-7"},  {"contentType", "text/plain"},
                         {"traceparent", "00-a-b-01"}, {"tenant", "acme"}};
  EXPECT_EQ(forwarded(incoming), (Headers{{"correlationId", "sess-7"},
                                          {"contentType", "text/plain"},
                                          {"traceparent", "00-a-b-01"},
                                          {"tenant", "acme"}}));
}

TEST(Causation, TraceIsPassedOnWithItsState) {
  RecordProperty("requirement", "MSG-04");
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const ClaimedMessage cause = handled({{"traceparent", parent}, {"tracestate", "a=1"}});
  const Headers headers = caused_by(cause);
  EXPECT_EQ(headers.traceparent(), parent);
  EXPECT_EQ(headers.get("tracestate"), "a=1");
}

TEST(Causation, StateOfAnotherTraceIsNotMixedIn) {
  const ClaimedMessage cause = handled({{"traceparent", "theirs"}, {"tracestate", "a=1"}});
  const Headers headers = caused_by(cause, {{"traceparent", "mine"}});
  EXPECT_EQ(headers.traceparent(), "mine");
  EXPECT_FALSE(headers.get("tracestate"));
  EXPECT_FALSE(caused_by(handled({{"tracestate", "a=1"}})).get("tracestate"));
}

TEST(Causation, ContextAndMessageAreCausesToo) {
  const ClaimedMessage cause = handled({{"correlationId", "session-7"}});
  const HandlerContext context(cause, {});
  EXPECT_EQ(caused_by(context), caused_by(cause));
  EXPECT_EQ(caused_by(cause.message), caused_by(cause));
}

TEST(Causation, WithoutACauseNothingChanges) {
  const Headers own{{"color", "red"}};
  EXPECT_EQ(caused_by({}, own), own);
}

TEST(Causation, TooManyHeadersAreRefused) {
  Headers own;
  for (std::size_t i = 0; i < Headers::kMaxEntries; ++i) own.set("h" + std::to_string(i), "");
  expect_error(ErrorCode::invalid_argument, [&] { (void)caused_by(handled({}), own); });
}

// printf 'shop\0order-1\0receipt' | sha256sum, and the bits of RFC 9562.
TEST(Causation, WhatAReceiverGotIsACauseByItsIdOrItsHeader) {
  RecordProperty("requirement", "MSG-04");
  const Headers named{{"messageId", "m-1"}, {"traceparent", "00-a-b-01"}};
  const Headers nameless{{"correlationId", "session-7"}};
  const int payload = 0;
  EXPECT_EQ(
      caused_by(Envelope<int>{named, payload, "order-1"}),
      (Headers{
          {"correlationId", "order-1"}, {"causationId", "order-1"}, {"traceparent", "00-a-b-01"}}));
  EXPECT_EQ(caused_by(Envelope<int>{named, payload}).causation_id(), "m-1");
  EXPECT_EQ(caused_by(Envelope<int>{nameless, payload}), nameless);
}

TEST(DerivedId, IsThatOfTheFixedVectors) {
  RecordProperty("requirement", "MSG-04");
  EXPECT_EQ(derived_id(MessageKey{"shop", "order-1"}, "receipt"),
            "06a24940-5767-8a3e-a5eb-8bed947147c2");
  EXPECT_EQ(derived_id(MessageKey{"shop", "order-1"}, "stock"),
            "c446a343-1eb1-882a-a6a9-75d0491b43b8");
  EXPECT_EQ(derived_id(MessageKey{"shop", "order-12"}, "receipt"),
            "88b74fd0-818e-8172-be3f-ad5605c457f4");
  EXPECT_EQ(derived_id(MessageKey{"stripe", "evt_\u00fc"}, ""),
            "bc116ec4-6b47-8d3d-b563-8274fe06af8e");
  EXPECT_EQ(derived_id(IdempotencyKey("accept-42"), "receipt"),
            "d188eea7-7009-8ab4-8941-462a94435463");
}

TEST(DerivedId, BordersBetweenItsPartsCount) {
  EXPECT_NE(derived_id(MessageKey{"a", "bc"}, "d"), derived_id(MessageKey{"ab", "c"}, "d"));
  EXPECT_NE(derived_id(MessageKey{"a", "b"}, "cd"), derived_id(MessageKey{"a", "bc"}, "d"));
}

TEST(DerivedId, IsTheSameForMessageAndContext) {
  const ClaimedMessage cause = handled({});
  const HandlerContext context(cause, {});
  EXPECT_EQ(derived_id(context, "receipt"), derived_id(cause.message.key, "receipt"));
  EXPECT_EQ(derived_id(cause, "receipt"), derived_id(cause.message.key, "receipt"));
}

}  // namespace
}  // namespace oncebox
