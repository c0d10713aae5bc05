// Trace contexts, and the spans of enqueues and claims.

#include "oncebox/tracing.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "expect_error.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/memory/transaction.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "oncebox/testing/span_record.hpp"

namespace oncebox {
namespace {

using testing::SpanRecord;

const std::string kTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, IsReadAndWrittenAsW3CSays) {
  const auto context = TraceContext::read(kTrace);
  ASSERT_TRUE(context);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->trace_id[0], 0x4b);
  EXPECT_EQ(context->span_id[7], 0xb7);
  EXPECT_EQ(context->traceparent(), kTrace);
  EXPECT_FALSE(TraceContext::read(kTrace.substr(0, 53) + "00")->sampled);
  EXPECT_TRUE(TraceContext::read(kTrace.substr(0, 53) + "ff")->sampled);
  EXPECT_EQ(TraceContext::read("01" + kTrace.substr(2) + "-more"), context) << "a later version";
}

TEST(TraceContext, WhatIsNoneIsNotRead) {
  for (const std::string& text : std::vector<std::string>{
           "", "00", kTrace.substr(1), kTrace + "-more", "ff" + kTrace.substr(2),
           "01" + kTrace.substr(2) + "more",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736" + kTrace.substr(35),
           "00-00000000000000000000000000000000" + kTrace.substr(35),
           kTrace.substr(0, 36) + "0000000000000000-01", kTrace.substr(0, 53) + "0x"}) {
    EXPECT_FALSE(TraceContext::read(text)) << text;
  }
  EXPECT_FALSE(TraceContext::of(Headers{}));
}

class TracingTest : public ::testing::Test {
 protected:
  [[nodiscard]] static Message message(const std::string& id, Headers headers = {}) {
    return {.key = {"shop", id}, .topic = "order", .payload = "{}", .headers = std::move(headers)};
  }
  [[nodiscard]] Headers stored(const std::string& id) {
    return store_.inbox().find({"shop", id})->message->headers;
  }
  /// What came before it.
  [[nodiscard]] static SpanRecord::Recorded last(const SpanRecord& spans) {
    return spans.spans().back();
  }

  memory::MemoryStore store_;
  SpanRecord spans_;
  Inbox inbox_{store_, {}, {.tracer = &spans_}};
};

TEST_F(TracingTest, AnEnqueueGoesOnWithTheSendersTraceAndTheMessageWithItsSpan) {
  inbox_.enqueue(message("1", {{"traceparent", kTrace}, {"tracestate", "vendor=x"}}));
  ASSERT_EQ(spans_.spans().size(), 1U);
  const SpanRecord::Recorded span = last(spans_);
  EXPECT_EQ(span.operation, SpanOperation::enqueue);
  EXPECT_EQ(span.target, "order");
  EXPECT_EQ(span.context.trace_id, TraceContext::read(kTrace)->trace_id);
  EXPECT_EQ(span.parent, TraceContext::read(kTrace)->span_id);
  EXPECT_NE(span.context.span_id, span.parent);
  EXPECT_EQ(span.trace_state, "vendor=x");
  EXPECT_EQ(span.error, "");
  EXPECT_LE(span.began_at, span.ended_at);
  EXPECT_EQ(span.fields.at("outcome"), "accepted");
  EXPECT_EQ(span.fields.at("source"), "shop");
  EXPECT_EQ(span.fields.at("message_id"), "1");
  EXPECT_EQ(stored("1").traceparent(), span.context.traceparent());
  EXPECT_EQ(stored("1").get("tracestate"), "vendor=x");
}

TEST_F(TracingTest, AMessageWithoutATraceBeginsOne) {
  inbox_.enqueue(message("1"));
  inbox_.enqueue(message("2", {{"traceparent", "nonsense"}, {"tracestate", "vendor=x"}}));
  for (const char* id : {"1", "2"}) {
    const auto context = TraceContext::of(stored(id));
    ASSERT_TRUE(context && context->sampled) << id;
    EXPECT_FALSE(stored(id).get("tracestate")) << "that of another trace";
  }
  EXPECT_FALSE(last(spans_).parent);
  EXPECT_NE(TraceContext::of(stored("1"))->trace_id, TraceContext::of(stored("2"))->trace_id);
}

TEST_F(TracingTest, OfATraceThatIsNotSampledThereAreNoSpans) {
  const std::string unsampled = kTrace.substr(0, 53) + "00";
  inbox_.enqueue(message("1", {{"traceparent", unsampled}}));
  EXPECT_TRUE(spans_.spans().empty());
  EXPECT_EQ(stored("1").traceparent(), unsampled);
}

TEST_F(TracingTest, ATraceThatTheTracerDoesNotSampleIsSoForEverybody) {
  class Never final : public Tracer {
    bool samples(const TraceContext::TraceId&) noexcept override { return false; }
    void on_span(const Span&) noexcept override { ADD_FAILURE() << "it is not sampled"; }
  };
  Never never;
  Inbox inbox(store_, {}, {.tracer = &never});
  inbox.enqueue(message("1"));
  const auto context = TraceContext::of(stored("1"));
  ASSERT_TRUE(context);
  EXPECT_FALSE(context->sampled);
}

TEST_F(TracingTest, EveryWayToEnqueueHasASpanForEachMessage) {
  (void)inbox_.enqueue_future(message("1")).get();
  std::promise<EnqueueStatus> told;
  inbox_.enqueue_then(message("2"), [&](const Inbox::EnqueueResult& result) {
    told.set_value(result.outcome().status);
  });
  EXPECT_EQ(told.get_future().get(), EnqueueStatus::accepted);
  Message bad = message("bad");
  bad.due_at = kMinTime - Duration{1};
  (void)inbox_.enqueue_each({message("3"), bad, message("1")});
  inbox_.enqueue(std::vector{message("4"), message("5")});
  memory::CallerTransaction transaction(store_);
  inbox_.enqueue(message("6"), transaction);
  inbox_.enqueue(std::vector{message("7")}, transaction);
  Outbox outbox(store_, {}, {.tracer = &spans_});
  outbox.enqueue({.topic = "receipt"});

  std::string ids;
  std::string outcomes;
  for (const SpanRecord::Recorded& span : spans_.spans()) {
    if (span.target == "order") ids += span.fields.at("message_id");
    outcomes += span.fields.at("outcome") + ' ';
  }
  EXPECT_EQ(ids,
            "1231"
            "4567");
  EXPECT_NE(outcomes.find("duplicate"), std::string::npos);
  EXPECT_EQ(last(spans_).target, "receipt");
}

TEST_F(TracingTest, WhatCannotBeStoredIsAnErrorOfItsSpan) {
  testing::FaultInjectingQueueStore away(store_.inbox(),
                                         [](std::string_view) { return testing::Fault::before; });
  Inbox inbox(away, {}, {.tracer = &spans_});
  expect_error(ErrorCode::unavailable, [&] { inbox.enqueue(message("1")); });
  EXPECT_EQ(last(spans_).error, "unavailable");
  expect_error(ErrorCode::unavailable, [&] { (void)inbox.enqueue_future(message("2")).get(); });
  EXPECT_EQ(last(spans_).fields.at("message_id"), "2");
  EXPECT_EQ(last(spans_).error, "unavailable");
}

TEST_F(TracingTest, AMessageWithAllTheHeadersThatItMayHaveIsStillTaken) {
  Message full = message("1");
  for (std::size_t i = 0; i < Headers::kMaxEntries; ++i) {
    full.headers.set("header" + std::to_string(i), "x");
  }
  EXPECT_EQ(inbox_.enqueue(full).status, EnqueueStatus::accepted);
  EXPECT_EQ(stored("1"), full.headers);
}

TEST_F(TracingTest, AClaimIsLinkedToWhatItHandsOut) {
  testing::ManualClock clock;
  ObservedQueueStore queue(store_.inbox(), "orders", {.clock = clock, .tracer = &spans_});
  EXPECT_TRUE(queue.claim({.owner = OwnerToken::generate()}).empty());
  EXPECT_TRUE(spans_.spans().empty()) << "polling is no news";
  inbox_.enqueue(message("1"));
  inbox_.enqueue(message("2", {{"traceparent", kTrace.substr(0, 53) + "00"}}));
  EXPECT_EQ(queue.claim({.owner = OwnerToken::generate()}).size(), 2U);
  const SpanRecord::Recorded claim = last(spans_);
  EXPECT_EQ(claim.operation, SpanOperation::claim);
  EXPECT_EQ(claim.target, "orders");
  EXPECT_EQ(claim.fields.at("count"), "2");
  EXPECT_FALSE(claim.parent);
  ASSERT_EQ(claim.links.size(), 1U);
  EXPECT_EQ(claim.links[0], TraceContext::of(stored("1")));
}

}  // namespace
}  // namespace oncebox
