#include <atomic>
#include <set>
#include <stdexcept>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"

namespace oncebox {

struct Amount {
  int cents = 0;
};

template <>
struct PayloadCodec<Amount> {
  static Amount decode(const Payload& payload) { return {std::stoi(payload.bytes())}; }
};

namespace {

using std::chrono::seconds;

using DispatcherHandlingTest = DispatcherTest;

TEST_F(DispatcherHandlingTest, EachMessageGoesToTheHandlerOfItsTopic) {
  RecordProperty("requirement", "IBX-073,R-20");
  Watched<std::set<std::string>> seen;
  const auto note = [&](const std::string& handler) {
    return [&seen, handler](const ClaimedMessage& message, HandlerContext&) {
      seen.change([&](auto& all) { all.insert(message.message.topic.str() + ">" + handler); });
    };
  };
  handlers_.on("order.created", note("exact"))
      .on("order.*", note("stem"))
      .on("order.c*", note("longer stem"))
      .on("*", note("rest"));
  for (const char* topic : {"order.created", "order.paid", "order.closed", "Order.created"}) {
    enqueue(message(topic, topic));
  }
  const auto ending = start();
  EXPECT_TRUE(seen.wait_for({"order.created>exact", "order.paid>stem", "order.closed>longer stem",
                             "Order.created>rest"}));
  EXPECT_TRUE(wait_for_status("order.created", Status::done));
}

TEST_F(DispatcherHandlingTest, AHandlerGetsTheWholeMessageAndAStopToken) {
  RecordProperty("requirement", "IBX-076");
  Message sent = message("m");
  sent.headers = {{"correlationId", "c-1"}};
  sent.partition_key = "customer-7";
  Watched<std::optional<ClaimedMessage>> got;
  handlers_.on("order.created", [&](const ClaimedMessage& claimed, HandlerContext& context) {
    EXPECT_TRUE(context.stop_token().stop_possible());
    EXPECT_FALSE(context.stop_token().stop_requested());
    EXPECT_FALSE(context.lease_lost());
    EXPECT_EQ(&context.message(), &claimed);
    got.change([&](auto& value) { value = claimed; });
  });
  enqueue(sent);
  const auto ending = start();
  ASSERT_TRUE(got.wait([](const auto& value) { return value.has_value(); }));
  EXPECT_EQ(got.get()->message, sent);
  EXPECT_EQ(got.get()->owner, dispatcher_->owner());
  EXPECT_EQ(got.get()->history.deliveries, 1);
}

TEST_F(DispatcherHandlingTest, HandlersMayBeObjectsThatServeSeveralPatterns) {
  class Counting final : public Handler {
   public:
    void handle(const ClaimedMessage&, HandlerContext&) override {
      calls.change([](int& count) { ++count; });
    }
    Watched<int> calls;
  };
  const auto handler = std::make_shared<Counting>();
  handlers_.on("a", handler).on("b", handler);
  enqueue(message("1", "a"));
  enqueue(message("2", "b"));
  const auto ending = start();
  EXPECT_TRUE(handler->calls.wait_for(2));
}

TEST_F(DispatcherHandlingTest, TypedHandlersGetTheDecodedPayload) {
  Watched<int> sum;
  Watched<std::string> text;
  handlers_.on<Amount>("amount", [&](const Amount& amount, HandlerContext&) {
    sum.change([&](int& value) { value += amount.cents; });
  });
  handlers_.on<std::string>("text", [&](const std::string& bytes, HandlerContext& context) {
    EXPECT_EQ(context.message().message.payload.bytes(), bytes);
    text.change([&](std::string& value) { value = bytes; });
  });
  enqueue({.key = {"shop", "1"}, .topic = "amount", .payload = "17"});
  enqueue({.key = {"shop", "2"}, .topic = "text", .payload = "hello"});
  const auto ending = start();
  EXPECT_TRUE(sum.wait_for(17));
  EXPECT_TRUE(text.wait_for("hello"));
}

TEST_F(DispatcherHandlingTest, AnUndecodablePayloadIsDeadAndNeverQuoted) {
  RecordProperty("requirement", "MSG-05,IBX-127");
  handlers_.on<Amount>("amount", [](const Amount&, HandlerContext&) { FAIL(); });
  enqueue({.key = {"shop", "1"}, .topic = "amount", .payload = "s3cret"});
  const auto ending = start();
  ASSERT_TRUE(wait_for_status("1", Status::dead));
  EXPECT_EQ(record("1").history.last_error, "the payload cannot be decoded");
  EXPECT_FALSE(logger_.contains("s3cret"));
}

TEST_F(DispatcherHandlingTest, APermanentFailureIsDeadAtOnce) {
  RecordProperty("requirement", "IBX-075,MSG-05");
  handlers_.on("order.created", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("no such customer");
  });
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(wait_for_status("m", Status::dead));
  EXPECT_EQ(record("m").history.last_error, "no such customer");
  EXPECT_EQ(record("m").history.attempt, 1);
  EXPECT_TRUE(eventually([&] { return dispatcher_->stats().dead == 1; }));
}

TEST_F(DispatcherHandlingTest, AnAttemptKeepsTheWorkersNameAndTheTypeOfTheException) {
  RecordProperty("requirement", "R-32");
  handlers_.on("order.created", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("no such customer");
  });
  enqueue(message("m"));
  const auto ending = start({.worker_name = "shop-3"});
  ASSERT_TRUE(wait_for_status("m", Status::dead));
  const Attempt attempt = record("m").attempts.at(0);
  EXPECT_EQ(attempt.worker, "shop-3");
  EXPECT_EQ(attempt.error_kind, "oncebox::PermanentFailure");
  EXPECT_EQ(attempt.error, "no such customer");
}

TEST_F(DispatcherHandlingTest, AnyOtherExceptionIsRetriedByThePolicyOfTheTopic) {
  RecordProperty("requirement", "IBX-075,IBX-080,IBX-081,IBX-082,MSG-05");
  handlers_.on("*", [](const ClaimedMessage&, HandlerContext&) {
    throw std::runtime_error("connection refused");
  });
  RetryPolicies retries;
  retries.set("quick.*", {.backoff = FixedDelay{Duration{7}}});
  enqueue(message("default"));
  enqueue(message("quick", "quick.one"));
  const auto ending = start({.retries = retries});
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().retried == 2; }));
  EXPECT_EQ(record("default").eligible_at, clock_.now() + seconds{2});
  EXPECT_EQ(record("quick").eligible_at, clock_.now() + Duration{7});
  EXPECT_EQ(record("default").history.attempt, 1);
  EXPECT_EQ(record("default").history.last_error, "connection refused");
  advance(seconds{2});
  ASSERT_TRUE(eventually([&] { return record("default").history.attempt == 2; }));
  EXPECT_EQ(record("default").eligible_at, clock_.now() + seconds{4});
}

TEST_F(DispatcherHandlingTest, DeadAfterTheLastAttemptThatThePolicyAllows) {
  RecordProperty("requirement", "IBX-083,IBX-084,R-11");
  Watched<int> calls;
  handlers_.on("order.created", [&](const ClaimedMessage&, HandlerContext&) {
    calls.change([](int& count) { ++count; });
    throw std::runtime_error("still broken");
  });
  enqueue(message("m"));
  const auto ending =
      start({.retries = RetryPolicies({.backoff = FixedDelay{seconds{1}}, .max_attempts = 3})});
  for (int attempt = 1; attempt < 3; ++attempt) {
    ASSERT_TRUE(eventually([&] { return record("m").history.attempt == attempt; }));
    advance(seconds{1});
  }
  ASSERT_TRUE(wait_for_status("m", Status::dead));
  EXPECT_EQ(calls.get(), 3);
  EXPECT_EQ(record("m").history.last_error, "still broken");
}

TEST_F(DispatcherHandlingTest, PolicyMayGiveUpByAge) {
  RecordProperty("requirement", "MSG-05");
  handlers_.on("order.created", [](const ClaimedMessage&, HandlerContext&) {
    throw std::runtime_error("still broken");
  });
  enqueue(message("m"));
  const auto ending = start(
      {.retries = RetryPolicies(
           {.backoff = FixedDelay{seconds{1}}, .max_attempts = 2, .give_up_after = seconds{5}})});
  for (int attempt = 1; attempt <= 5; ++attempt) {
    ASSERT_TRUE(eventually([&] { return record("m").history.attempt == attempt; }));
    advance(seconds{1});
  }
  ASSERT_TRUE(wait_for_status("m", Status::dead));
  EXPECT_EQ(record("m").history.last_error, "still broken");
}

TEST_F(DispatcherHandlingTest, RetryAfterSetsTheDelayAndCountsAnAttempt) {
  RecordProperty("requirement", "MSG-05");
  handlers_.on("order.created", [](const ClaimedMessage&, HandlerContext&) {
    throw RetryAfter(seconds{90}, "too many requests");
  });
  enqueue(message("m"));
  const auto ending = start({.retries = RetryPolicies({.max_attempts = 2})});
  ASSERT_TRUE(eventually([&] { return record("m").history.attempt == 1; }));
  EXPECT_EQ(record("m").eligible_at, clock_.now() + seconds{90});
  EXPECT_EQ(record("m").history.last_error, "too many requests");
  advance(seconds{90});
  EXPECT_TRUE(wait_for_status("m", Status::dead)) << "the last attempt that the policy allows";
}

TEST_F(DispatcherHandlingTest, NotNowComesAgainAfterItsDelayAndCountsNoAttempt) {
  RecordProperty("requirement", "R-35");
  std::atomic<int> calls = 0;
  handlers_.on("order.created", [&](const ClaimedMessage&, HandlerContext&) {
    if (++calls <= 2) throw NotNow(seconds{90}, "the ledger is closed");
  });
  enqueue(message("m"));
  const auto ending = start({.retries = RetryPolicies({.max_attempts = 1})});
  for (int released = 1; released <= 2; ++released) {
    ASSERT_TRUE(eventually([&] { return record("m").eligible_at == clock_.now() + seconds{90}; }));
    EXPECT_EQ(calls, released);
    advance(seconds{90});
  }
  ASSERT_TRUE(wait_for_status("m", Status::done));
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(record("m").history.attempt, 0);
}

TEST_F(DispatcherHandlingTest, AnExceptionMayNameItsKind) {
  RecordProperty("requirement", "R-32");
  class TimedOut final : public RetryAfter, public NamesErrorKind {
   public:
    TimedOut() : RetryAfter(seconds{90}, "the ledger is slow") {}
    [[nodiscard]] std::string error_kind() const override { return "timeout"; }
  };
  handlers_.on("order.created", [](const ClaimedMessage&, HandlerContext&) { throw TimedOut(); });
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(eventually([&] { return record("m").history.attempt == 1; }));
  EXPECT_EQ(record("m").eligible_at, clock_.now() + seconds{90});
  EXPECT_EQ(record("m").attempts.at(0).error_kind, "timeout");
  EXPECT_TRUE(logger_.contains("type=timeout"));
}

TEST_F(DispatcherHandlingTest, WhatIsNoStdExceptionIsCaughtToo) {
  RecordProperty("requirement", "IBX-075");
  handlers_.on("order.created", [](const ClaimedMessage&, HandlerContext&) { throw 42; });
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(eventually([&] { return record("m").history.attempt == 1; }));
  EXPECT_EQ(record("m").history.last_error, "an exception that is not a std::exception");
  EXPECT_TRUE(logger_.contains("type=int"));
}

TEST_F(DispatcherHandlingTest, ErrorsAreCutToTheirLimitAtACharacter) {
  RecordProperty("requirement", "R-27");
  std::string long_text(2'047, 'x');
  long_text += "ü and more";
  handlers_.on("order.created",
               [&](const ClaimedMessage&, HandlerContext&) { throw PermanentFailure(long_text); });
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(wait_for_status("m", Status::dead));
  EXPECT_EQ(record("m").history.last_error, std::string(2'047, 'x'));
}

TEST_F(DispatcherHandlingTest, WithoutHandlerItWarnsAndAbandons) {
  RecordProperty("requirement", "IBX-074,R-19");
  enqueue(message("m", "unknown"));
  const auto ending = start();
  ASSERT_TRUE(eventually([&] { return record("m").history.attempt == 1; }));
  EXPECT_EQ(record("m").history.last_error, "no handler for topic unknown");
  EXPECT_TRUE(logger_.contains(
      "warning no handler for topic store=inbox topic=unknown source=shop message_id=m"));
}

TEST_F(DispatcherHandlingTest, WithoutHandlerItFailsWhenToldSo) {
  RecordProperty("requirement", "R-19");
  enqueue(message("m", "unknown"));
  const auto ending = start({.no_handler = NoHandlerPolicy::fail});
  ASSERT_TRUE(wait_for_status("m", Status::dead));
}

TEST_F(DispatcherHandlingTest, WithoutHandlerItLeavesMessagesToOthersWhenToldSo) {
  RecordProperty("requirement", "R-19");
  handlers_.on("order.*", [](const ClaimedMessage&, HandlerContext&) {});
  enqueue(message("unknown", "unknown"));
  enqueue(message("known"));
  const auto ending = start({.no_handler = NoHandlerPolicy::ignore});
  ASSERT_TRUE(wait_for_status("known", Status::done));
  ASSERT_TRUE(dispatcher_->stop().complete());
  EXPECT_EQ(record("unknown").history.deliveries, 0);
}

TEST_F(DispatcherHandlingTest, OnePatternHasOneHandler) {
  const auto nothing = [](const ClaimedMessage&, HandlerContext&) {};
  handlers_.on("order.*", nothing);
  expect_error(ErrorCode::conflict, [&] { handlers_.on("order.*", nothing); });
  expect_error(ErrorCode::invalid_argument,
               [&] { handlers_.on("other", std::shared_ptr<Handler>()); });
  expect_error(ErrorCode::out_of_range,
               [&] { handlers_.on("other", nothing, {.max_concurrency = 0}); });
  expect_error(ErrorCode::out_of_range,
               [&] { handlers_.on("other", nothing, {.rate = RateLimit{.count = 0}}); });
  EXPECT_EQ(handlers_.registrations().size(), 1U);
}

TEST_F(DispatcherHandlingTest, AStoreWithoutTransactionsRefusesHandlersThatWantOne) {
  handlers_.on("order.*", [](const ClaimedMessage&, Transaction&, HandlerContext&) {});
  testing::FaultInjectingQueueStore without_transactions(
      store_.inbox(), [](std::string_view) { return testing::Fault::none; });
  expect_error(ErrorCode::unsupported, [&] { Dispatcher(without_transactions, handlers_); });
  expect_error(ErrorCode::invalid_argument,
               [&] { handlers_.on("other", std::shared_ptr<TransactionalHandler>()); });
}

}  // namespace
}  // namespace oncebox
