// The spans of handlers, publishers and verdicts.

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "oncebox/causation.hpp"
#include "oncebox/dispatch/dispatch_pending.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/testing/span_record.hpp"
#include "watched.hpp"

namespace oncebox {
namespace {

using testing::SpanRecord;

class DispatcherTracingTest : public ::testing::Test {
 protected:
  [[nodiscard]] SpanRecord::Recorded only(SpanOperation operation) const {
    const auto found = spans_.spans_of(operation);
    EXPECT_EQ(found.size(), 1U) << to_string(operation);
    return found.empty() ? SpanRecord::Recorded{} : found.front();
  }
  [[nodiscard]] bool wait_for(SpanOperation operation, std::size_t count) const {
    return eventually([&] { return spans_.spans_of(operation).size() >= count; });
  }

  memory::MemoryStore store_;
  SpanRecord spans_;
  const Surroundings traced_{.tracer = &spans_};
  Inbox inbox_{store_, {}, traced_};
  Outbox outbox_{store_, {.source = "shop"}, traced_};
  Handlers handlers_;
  const DispatcherOptions options_{.workers = 1};
};

TEST_F(DispatcherTracingTest, OneTraceLeadsFromTheEnqueueToThePublisher) {
  handlers_.on("order", [&](const ClaimedMessage&, HandlerContext& context) {
    outbox_.enqueue({.topic = "receipt"}, context);
  });
  Watched<std::string> published;
  Publishers publishers;
  publishers.on("receipt", [&](const ClaimedMessage& claimed, HandlerContext&) {
    published.change([&](std::string& traceparent) {
      traceparent = claimed.message.headers.traceparent().value_or("");
    });
  });
  inbox_.enqueue({.key = {"shop", "1"}, .topic = "order"});
  Dispatcher working(store_.inbox(), handlers_, options_, traced_);
  OutboxDispatcher publishing(store_, publishers, options_, traced_);
  working.start();
  publishing.start();
  ASSERT_TRUE(wait_for(SpanOperation::settle, 2));
  working.stop();
  publishing.stop();

  const auto enqueues = spans_.spans_of(SpanOperation::enqueue);
  ASSERT_EQ(enqueues.size(), 2U);
  const SpanRecord::Recorded handle = only(SpanOperation::handle);
  const SpanRecord::Recorded publish = only(SpanOperation::publish);
  EXPECT_EQ(handle.parent, enqueues[0].context.span_id);
  EXPECT_EQ(enqueues[1].parent, handle.context.span_id) << "sent by the handler";
  EXPECT_EQ(publish.parent, enqueues[1].context.span_id);
  EXPECT_EQ(published.get(), publish.context.traceparent()) << "what a receiver gets";
  EXPECT_EQ(handle.fields.at("outcome"), "succeeded");
  EXPECT_EQ(handle.fields.at("attempt"), "1");
  EXPECT_EQ(publish.target, "receipt");
  for (const SpanRecord::Recorded& settle : spans_.spans_of(SpanOperation::settle)) {
    const bool is_below =
        settle.parent == handle.context.span_id || settle.parent == publish.context.span_id;
    EXPECT_TRUE(is_below);
    EXPECT_EQ(settle.fields.at("outcome"), "settled");
  }
  for (const SpanRecord::Recorded& span : spans_.spans()) {
    if (span.operation == SpanOperation::claim) continue;
    EXPECT_EQ(span.context.trace_id, enqueues[0].context.trace_id) << to_string(span.operation);
  }
  EXPECT_EQ(spans_.spans_of(SpanOperation::claim).at(0).links.at(0), enqueues[0].context);
}

TEST_F(DispatcherTracingTest, EachAttemptIsASpanAndAFailureSaysItsKindOnly) {
  handlers_.on("order", [](const ClaimedMessage& claimed, HandlerContext&) {
    if (claimed.history.attempt == 0) throw RetryAfter(Duration{1}, "a secret");
    throw PermanentFailure("a secret");
  });
  inbox_.enqueue({.key = {"shop", "1"}, .topic = "order"});
  Dispatcher dispatcher(store_.inbox(), handlers_, options_, traced_);
  dispatcher.start();
  ASSERT_TRUE(wait_for(SpanOperation::settle, 2));
  dispatcher.stop();
  const auto handles = spans_.spans_of(SpanOperation::handle);
  ASSERT_EQ(handles.size(), 2U);
  EXPECT_EQ(handles[0].error, "oncebox::RetryAfter");
  EXPECT_EQ(handles[0].fields.at("outcome"), "abandoned");
  EXPECT_EQ(handles[1].error, "oncebox::PermanentFailure");
  EXPECT_EQ(handles[1].fields.at("outcome"), "failed");
  EXPECT_EQ(handles[0].parent, handles[1].parent) << "both below the enqueue";
}

TEST_F(DispatcherTracingTest, ATransactionalHandlerIsSettledInItsSpan) {
  handlers_.on("order", [&](const ClaimedMessage&, Transaction& transaction, HandlerContext& now) {
    outbox_.enqueue({.topic = "receipt"}, transaction, now);
  });
  inbox_.enqueue({.key = {"shop", "1"}, .topic = "order"});
  Dispatcher dispatcher(store_.inbox(), handlers_, options_, traced_);
  dispatcher.start();
  ASSERT_TRUE(wait_for(SpanOperation::handle, 1));
  dispatcher.stop();
  EXPECT_TRUE(spans_.spans_of(SpanOperation::settle).empty());
  EXPECT_EQ(spans_.spans_of(SpanOperation::enqueue).at(1).parent,
            only(SpanOperation::handle).context.span_id);
}

TEST_F(DispatcherTracingTest, ATransactionThatIsRolledBackIsSettledBelowItsHandler) {
  handlers_.on("order", [](const ClaimedMessage&, Transaction&, HandlerContext&) {
    throw PermanentFailure("a secret");
  });
  inbox_.enqueue({.key = {"shop", "1"}, .topic = "order"});
  EXPECT_EQ(dispatch_pending(store_.inbox(), handlers_, 10, {}, traced_).dead, 1U);
  const SpanRecord::Recorded handle = only(SpanOperation::handle);
  EXPECT_EQ(handle.error, "oncebox::PermanentFailure");
  EXPECT_EQ(only(SpanOperation::settle).parent, handle.context.span_id);
}

TEST_F(DispatcherTracingTest, EachMessageOfABatchHasASpanOfItsOwn) {
  std::vector<std::string> seen;
  handlers_.on_batch("order", [&](std::span<BatchMessage> batch) {
    ASSERT_EQ(batch.size(), 3U);
    for (const BatchMessage& message : batch) {
      seen.emplace_back(message.message().message.headers.traceparent().value_or(""));
    }
    outbox_.enqueue({.topic = "receipt"}, batch[0].context());
    batch[1].failed(PermanentFailure("a secret"));
  });
  for (const char* id : {"1", "2", "3"}) inbox_.enqueue({.key = {"shop", id}, .topic = "order"});
  EXPECT_EQ(dispatch_pending(store_.inbox(), handlers_, 10, {}, traced_).total(), 3U);

  const auto enqueues = spans_.spans_of(SpanOperation::enqueue);
  const auto handles = spans_.spans_of(SpanOperation::handle);
  const auto settles = spans_.spans_of(SpanOperation::settle);
  ASSERT_EQ(enqueues.size(), 4U);
  ASSERT_EQ(handles.size(), 3U);
  ASSERT_EQ(settles.size(), 3U);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_EQ(handles[i].parent, enqueues[i].context.span_id);
    EXPECT_EQ(handles[i].context.trace_id, enqueues[i].context.trace_id);
    EXPECT_EQ(handles[i].context.traceparent(), seen.at(i)) << "what the handler sees";
    EXPECT_EQ(handles[i].error, i == 1 ? "oncebox::PermanentFailure" : "");
    EXPECT_EQ(handles[i].fields.at("outcome"), i == 1 ? "failed" : "succeeded");
    const auto is_below = [&](const auto& settle) {
      return settle.parent == handles[i].context.span_id;
    };
    EXPECT_EQ(std::ranges::count_if(settles, is_below), 1);
  }
  EXPECT_EQ(enqueues[3].parent, handles[0].context.span_id) << "sent by the handler";
}

TEST_F(DispatcherTracingTest, TheSpanOfAHandlerWithoutAThreadLastsUntilItsCompletion) {
  Watched<std::optional<Completion>> kept;
  handlers_.on_async("order", [&](const ClaimedMessage&, Completion completion) {
    kept.change([&](auto& held) { held.emplace(std::move(completion)); });
  });
  inbox_.enqueue({.key = {"shop", "1"}, .topic = "order"});
  Dispatcher dispatcher(store_.inbox(), handlers_, options_, traced_);
  dispatcher.start();
  ASSERT_TRUE(kept.wait([](const auto& held) { return held.has_value(); }));
  EXPECT_TRUE(spans_.spans_of(SpanOperation::handle).empty()) << "it has only begun";
  kept.change([&](auto& held) {
    outbox_.enqueue({.topic = "receipt"}, held->context());
    held->done();
  });
  ASSERT_TRUE(wait_for(SpanOperation::settle, 1));
  dispatcher.stop();

  const auto enqueues = spans_.spans_of(SpanOperation::enqueue);
  ASSERT_EQ(enqueues.size(), 2U);
  const SpanRecord::Recorded handle = only(SpanOperation::handle);
  EXPECT_EQ(handle.parent, enqueues[0].context.span_id);
  EXPECT_EQ(enqueues[1].parent, handle.context.span_id) << "sent before the completion";
  EXPECT_GE(handle.ended_at, enqueues[1].ended_at);
  EXPECT_EQ(handle.fields.at("outcome"), "succeeded");
  EXPECT_EQ(only(SpanOperation::settle).parent, handle.context.span_id);
}

TEST_F(DispatcherTracingTest, AHandlerWithoutAThreadThatFailsSaysTheKindOfItsFailure) {
  handlers_.on_async("order", [](const ClaimedMessage&, Completion completion) {
    completion.failed(PermanentFailure("a secret"));
  });
  inbox_.enqueue({.key = {"shop", "1"}, .topic = "order"});
  EXPECT_EQ(dispatch_pending(store_.inbox(), handlers_, 10, {}, traced_).dead, 1U);
  const SpanRecord::Recorded handle = only(SpanOperation::handle);
  EXPECT_EQ(handle.error, "oncebox::PermanentFailure");
  EXPECT_EQ(only(SpanOperation::settle).parent, handle.context.span_id);
}

TEST_F(DispatcherTracingTest, MiddlewareRunsInTheSpanOfWhatItIsAround) {
  std::string seen;
  Publishers publishers;
  publishers.on("receipt", [](const ClaimedMessage&, HandlerContext&) {});
  publishers.around([&](const ClaimedMessage& claimed, HandlerContext&, const NextHandler& next) {
    seen = claimed.message.headers.traceparent().value_or("");
    next();
  });
  outbox_.enqueue({.topic = "receipt"});
  EXPECT_EQ(dispatch_pending(store_.outbox(), publishers, 10, {}, traced_).handled, 1U);
  EXPECT_EQ(only(SpanOperation::publish).context.traceparent(), seen);
}

TEST_F(DispatcherTracingTest, WhoHearsTheEndOfAHandlerWithoutAThreadIsInItsSpan) {
  handlers_.on_async("order",
                     [](const ClaimedMessage&, Completion completion) { completion.done(); });
  handlers_.around_async(
      [&](const ClaimedMessage&, const HandlerContext& context, const NextAsyncHandler& next) {
        next([&](const std::exception_ptr&) { outbox_.enqueue({.topic = "receipt"}, context); });
      });
  inbox_.enqueue({.key = {"shop", "1"}, .topic = "order"});
  EXPECT_EQ(dispatch_pending(store_.inbox(), handlers_, 10, {}, traced_).handled, 1U);
  const auto enqueues = spans_.spans_of(SpanOperation::enqueue);
  ASSERT_EQ(enqueues.size(), 2U);
  EXPECT_EQ(enqueues[1].parent, only(SpanOperation::handle).context.span_id);
}

TEST_F(DispatcherTracingTest, AMessageWithoutATraceBeginsOneWhenItIsHandled) {
  handlers_.on("order", [](const ClaimedMessage&, HandlerContext&) {});
  store_.inbox().enqueue({.key = {"shop", "1"}, .topic = "order"});
  Dispatcher dispatcher(store_.inbox(), handlers_, options_, traced_);
  dispatcher.start();
  ASSERT_TRUE(wait_for(SpanOperation::settle, 1));
  dispatcher.stop();
  EXPECT_FALSE(only(SpanOperation::handle).parent);
}

TEST_F(DispatcherTracingTest, WhatIsDispatchedOnceHasTheSameSpans) {
  handlers_.on("order", [&](const ClaimedMessage&, HandlerContext& context) {
    outbox_.enqueue({.topic = "receipt"}, context);
  });
  Publishers publishers;
  publishers.on("receipt", [](const ClaimedMessage&, HandlerContext&) {});
  inbox_.enqueue({.key = {"shop", "1"}, .topic = "order"});
  EXPECT_EQ(dispatch_pending(store_.inbox(), handlers_, 10, {}, traced_).handled, 1U);
  EXPECT_EQ(dispatch_pending(store_.outbox(), publishers, 10, {}, traced_).handled, 1U);
  std::string operations;
  for (const SpanRecord::Recorded& span : spans_.spans()) {
    operations += std::string(to_string(span.operation)) + ' ';
  }
  EXPECT_EQ(operations, "enqueue claim enqueue handle settle claim publish settle ");
}

TEST_F(DispatcherTracingTest, WithoutATracerAHandlerGetsTheMessageAsItWasSent) {
  Watched<Headers> got;
  handlers_.on("order", [&](const ClaimedMessage& claimed, HandlerContext&) {
    got.change([&](Headers& headers) { headers = claimed.message.headers; });
  });
  const Headers sent{{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}};
  store_.inbox().enqueue({.key = {"shop", "1"}, .topic = "order", .headers = sent});
  Dispatcher dispatcher(store_.inbox(), handlers_);
  dispatcher.start();
  EXPECT_TRUE(got.wait_for(sent));
}

}  // namespace
}  // namespace oncebox
