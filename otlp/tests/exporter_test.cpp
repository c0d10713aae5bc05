// The exporter against a receiver that reads what it gets.

#include "oncebox/otlp/exporter.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <semaphore>
#include <string>
#include <vector>

#include "expect_error.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "watched.hpp"

namespace oncebox::otlp {
namespace {

using namespace std::chrono_literals;
using oncebox::testing::ManualClock;
using oncebox::testing::Reaction;
using oncebox::testing::ReceivedRequest;
using oncebox::testing::ScriptedServer;
using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
namespace json = boost::json;

/// A span as a collector reads it.
struct ReadSpan {
  std::string name;
  std::string trace;
  std::string id;
  std::string parent;
  std::int64_t kind = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::map<std::string, std::string> attributes;
  std::vector<std::string> links;
  bool is_error = false;
};

std::map<std::string, std::string> read_attributes(const json::value& list) {
  std::map<std::string, std::string> attributes;
  for (const json::value& one : list.as_array()) {
    const json::object& value = one.at("value").as_object();
    EXPECT_EQ(value.size(), 1U);
    const std::string_view kind = value.begin()->key();
    EXPECT_TRUE(kind == "stringValue" || kind == "intValue" || kind == "doubleValue") << kind;
    const json::value& held = value.begin()->value();
    attributes.emplace(
        json::value_to<std::string>(one.at("key")),
        held.is_string() ? json::value_to<std::string>(held) : json::serialize(held));
  }
  return attributes;
}

std::string text_or_none(const json::value& object, std::string_view name) {
  const json::value* found = object.as_object().if_contains(name);
  return found == nullptr ? "" : json::value_to<std::string>(*found);
}

ReadSpan read_span(const json::value& span) {
  ReadSpan read{.name = json::value_to<std::string>(span.at("name")),
                .trace = json::value_to<std::string>(span.at("traceId")),
                .id = json::value_to<std::string>(span.at("spanId")),
                .parent = text_or_none(span, "parentSpanId"),
                .kind = span.at("kind").as_int64(),
                .start_ns = std::stoll(json::value_to<std::string>(span.at("startTimeUnixNano"))),
                .end_ns = std::stoll(json::value_to<std::string>(span.at("endTimeUnixNano"))),
                .attributes = read_attributes(span.at("attributes"))};
  EXPECT_EQ(read.trace.size(), 32U);
  EXPECT_EQ(read.id.size(), 16U);
  EXPECT_LE(read.start_ns, read.end_ns);
  if (const json::value* links = span.as_object().if_contains("links")) {
    for (const json::value& link : links->as_array()) {
      read.links.push_back(json::value_to<std::string>(link.at("spanId")));
    }
  }
  const json::value* status = span.as_object().if_contains("status");
  read.is_error = status != nullptr && status->at("code").as_int64() == 2;
  return read;
}

/// All spans of all requests that the receiver has taken.
class Receiver {
 public:
  explicit Receiver(ScriptedServer::Script script = [](const auto&) { return Reaction{}; })
      : server_(std::move(script)) {}

  [[nodiscard]] std::string url() const { return server_.url() + "/v1/traces"; }
  [[nodiscard]] ScriptedServer& server() { return server_; }
  [[nodiscard]] std::vector<ReceivedRequest> requests() const { return server_.requests(); }

  [[nodiscard]] std::vector<ReadSpan> spans() const {
    std::vector<ReadSpan> spans;
    for (const ReceivedRequest& request : requests()) {
      const json::value body = json::parse(request.body);
      for (const json::value& resource : body.at("resourceSpans").as_array()) {
        for (const json::value& scope : resource.at("scopeSpans").as_array()) {
          EXPECT_EQ(scope.at("scope").at("name"), "oncebox");
          for (const json::value& span : scope.at("spans").as_array()) {
            spans.push_back(read_span(span));
          }
        }
      }
    }
    return spans;
  }
  [[nodiscard]] ReadSpan named(const std::string& name) const {
    for (const ReadSpan& span : spans()) {
      if (span.name == name) return span;
    }
    ADD_FAILURE() << "there is no span " << name;
    return {};
  }

 private:
  ScriptedServer server_;
};

void tell_of(Tracer& tracer, std::size_t spans) {
  for (std::size_t i = 0; i < spans; ++i) {
    tracer.on_span({.target = "order", .context = tracer.begin(std::nullopt)});
  }
}

TEST(OtlpExporter, ACollectorReadsTheTraceOfAMessage) {
  const Receiver receiver;
  Exporter exporter({.url = receiver.url(),
                     .headers = {{"Authorization", "Bearer secret"}},
                     .service_name = "shop",
                     .resource = {{"service.version", "1.2"}}});
  memory::MemoryStore store;
  Inbox inbox(store, {}, {.tracer = &exporter});
  std::counting_semaphore<> handled(0);
  Handlers handlers;
  handlers.on("order", [&](const ClaimedMessage&, HandlerContext&) {
    handled.release();
    throw PermanentFailure("a secret");
  });
  const TimePoint before = SystemClock::current();
  inbox.enqueue({.key = {"web", "1"}, .topic = "order", .payload = "a secret"});
  {
    Dispatcher dispatcher(store.inbox(), handlers, {}, {.tracer = &exporter});
    dispatcher.start();
    ASSERT_TRUE(handled.try_acquire_for(30s));
  }
  ASSERT_TRUE(exporter.flush());

  const ReadSpan enqueue = receiver.named("enqueue order");
  const ReadSpan claim = receiver.named("claim inbox");
  const ReadSpan handle = receiver.named("handle order");
  const ReadSpan settle = receiver.named("settle order");
  EXPECT_EQ(receiver.spans().size(), 4U);
  EXPECT_EQ(enqueue.parent, "");
  EXPECT_EQ(handle.parent, enqueue.id);
  EXPECT_EQ(settle.parent, handle.id);
  EXPECT_EQ(claim.links, std::vector{enqueue.id});
  EXPECT_EQ(handle.trace, enqueue.trace);
  EXPECT_NE(claim.trace, enqueue.trace);
  EXPECT_EQ(std::vector({enqueue.kind, claim.kind, handle.kind, settle.kind}),
            (std::vector<std::int64_t>{4, 5, 5, 3}));
  EXPECT_FALSE(enqueue.is_error);
  EXPECT_TRUE(handle.is_error);
  EXPECT_LE(enqueue.start_ns, handle.start_ns);
  const auto milliseconds = [](TimePoint time) { return time.time_since_epoch().count(); };
  EXPECT_GE(enqueue.start_ns / 1'000'000, milliseconds(before) - 100);
  EXPECT_LE(settle.end_ns / 1'000'000, milliseconds(SystemClock::current()) + 100);
  EXPECT_THAT(enqueue.attributes, IsSupersetOf(std::map<std::string, std::string>{
                                      {"messaging.system", "oncebox"},
                                      {"messaging.operation.name", "enqueue"},
                                      {"messaging.operation.type", "send"},
                                      {"messaging.destination.name", "order"},
                                      {"messaging.message.id", "1"},
                                      {"oncebox.source", "web"},
                                      {"oncebox.outcome", "accepted"}}));
  EXPECT_THAT(handle.attributes, Contains(Pair("error.type", "oncebox::PermanentFailure")));
  EXPECT_THAT(handle.attributes, Contains(Pair("oncebox.attempt", "1")));
  EXPECT_THAT(claim.attributes, Contains(Pair("messaging.batch.message_count", "1")));

  for (const ReceivedRequest& request : receiver.requests()) {
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/v1/traces");
    EXPECT_EQ(request.fields.at("content-type"), "application/json");
    EXPECT_EQ(request.fields.at("authorization"), "Bearer secret");
    EXPECT_EQ(request.body.find("secret"), std::string::npos);
    const json::value resource = json::parse(request.body).at("resourceSpans").at(0).at("resource");
    EXPECT_THAT(read_attributes(resource.at("attributes")),
                UnorderedElementsAre(Pair("service.name", "shop"), Pair("service.version", "1.2")));
  }
}

TEST(OtlpExporter, SpansGatherForTheIntervalOrUntilABatchIsFull) {
  const Receiver receiver;
  ManualClock clock;
  NullLogger logger;
  Exporter exporter({.url = receiver.url(), .max_batch = 10, .interval = 5s},
                    {.logger = logger, .clock = clock});
  tell_of(exporter, 3);
  EXPECT_EQ(exporter.stats().queued, 3U);
  EXPECT_TRUE(receiver.requests().empty());
  ASSERT_TRUE(eventually([&] {
    clock.advance(5s);
    return exporter.stats().exported == 3;
  }));
  EXPECT_EQ(receiver.requests().size(), 1U);
  tell_of(exporter, 10);
  ASSERT_TRUE(eventually([&] { return exporter.stats().exported == 13; }));
  EXPECT_EQ(receiver.requests().size(), 2U);
  EXPECT_EQ(receiver.spans().size(), 13U);
}

TEST(OtlpExporter, WhatHasNoRoomIsDroppedAndNobodyWaits) {
  Receiver receiver([](const auto&) { return Reaction{.kind = Reaction::Kind::hang}; });
  Exporter exporter({.url = receiver.url(), .max_queued = 5, .max_batch = 2, .finish_within = 1ms});
  tell_of(exporter, 5);
  ASSERT_TRUE(receiver.server().wait_for_requests(1));
  tell_of(exporter, 100);
  EXPECT_EQ(exporter.stats().dropped, 100U);
  EXPECT_EQ(exporter.stats().queued, 5U) << "with what is on its way";
  EXPECT_FALSE(exporter.flush(1ms));
}

TEST(OtlpExporter, ABatchThatWasNotTakenIsSentAgainUntilItIs) {
  std::atomic<int> requests = 0;
  const Receiver receiver([&](const auto&) {
    const int number = ++requests;
    if (number == 1) return Reaction{.kind = Reaction::Kind::hang_up};
    if (number == 2) return Reaction{.status = 503};
    if (number == 3) return Reaction{.status = 429, .fields = {{"Retry-After", "7"}}};
    return Reaction{};
  });
  ManualClock clock;
  NullLogger logger;
  Exporter exporter({.url = receiver.url(), .max_batch = 2}, {.logger = logger, .clock = clock});
  tell_of(exporter, 2);
  ASSERT_TRUE(eventually([&] { return requests == 1; }));
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    return requests == 3;
  }));
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    return exporter.stats().exported == 2;
  }));
  EXPECT_EQ(requests, 4);
  EXPECT_EQ(receiver.requests().front().body, receiver.requests().back().body);
  EXPECT_EQ(exporter.stats().failed, 0U);
}

TEST(OtlpExporter, ABatchIsDroppedWhenTheCollectorRefusesItOrIsAwayForTooLong) {
  std::atomic<int> status = 400;
  const Receiver receiver([&](const auto&) { return Reaction{.status = status}; });
  ManualClock clock;
  NullLogger logger;
  Exporter exporter({.url = receiver.url(), .max_batch = 2, .max_attempts = 3},
                    {.logger = logger, .clock = clock});
  tell_of(exporter, 2);
  ASSERT_TRUE(eventually([&] { return exporter.stats().failed == 2; }));
  EXPECT_EQ(receiver.requests().size(), 1U);
  status = 503;
  tell_of(exporter, 2);
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    return exporter.stats().failed == 4;
  }));
  EXPECT_EQ(receiver.requests().size(), 4U);
  status = 200;
  tell_of(exporter, 2);
  ASSERT_TRUE(eventually([&] { return exporter.stats().exported == 2; }));
}

TEST(OtlpExporter, WhatACollectorRejectsOfABatchCountsAsFailed) {
  const Receiver receiver([](const auto&) {
    return Reaction{.body = R"({"partialSuccess":{"rejectedSpans":"2","errorMessage":"x"}})"};
  });
  Exporter exporter({.url = receiver.url()});
  tell_of(exporter, 5);
  ASSERT_TRUE(exporter.flush());
  EXPECT_EQ(exporter.stats().exported, 3U);
  EXPECT_EQ(exporter.stats().failed, 2U);
}

TEST(OtlpExporter, ABatchIsTakenHoweverLongTheAnswerIs) {
  for (const auto kind : {Reaction::Kind::answer, Reaction::Kind::stream}) {
    const Receiver receiver([&](const auto&) {
      return Reaction{.kind = kind, .body = std::string(std::size_t{256} << 10, 'x')};
    });
    ManualClock clock;
    NullLogger logger;
    Exporter exporter({.url = receiver.url(), .max_batch = 2}, {.logger = logger, .clock = clock});
    tell_of(exporter, 2);
    ASSERT_TRUE(eventually([&] {
      clock.advance(1s);
      return exporter.stats().exported + exporter.stats().failed == 2;
    }));
    EXPECT_EQ(exporter.stats().exported, 2U);
    EXPECT_EQ(receiver.requests().size(), 1U);
  }
}

TEST(OtlpExporter, SendsWhatWaitsBeforeItEndsAndDoesNotWaitForACollectorThatHangs) {
  const Receiver receiver;
  {
    tell_of(*std::make_unique<Exporter>(ExporterOptions{.url = receiver.url()}), 3);
  }
  EXPECT_EQ(receiver.spans().size(), 3U);
  Receiver hanging([](const auto&) { return Reaction{.kind = Reaction::Kind::hang}; });
  const auto began = std::chrono::steady_clock::now();
  {
    Exporter exporter({.url = hanging.url(), .finish_within = 50ms});
    tell_of(exporter, 3);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s)
      << "the timeout is 10 s for each request";
}

TEST(OtlpExporter, AShareOfTracesIsSampled) {
  const auto sampled_of = [](double share) {
    Exporter exporter({.url = oncebox::testing::dead_url(), .sampled_share = share});
    int sampled = 0;
    for (int i = 0; i < 10'000; ++i) sampled += exporter.begin(std::nullopt).sampled ? 1 : 0;
    return sampled;
  };
  EXPECT_EQ(sampled_of(0), 0);
  EXPECT_EQ(sampled_of(1), 10'000);
  EXPECT_NEAR(sampled_of(0.25), 2'500, 400);
}

TEST(OtlpExporter, WhatCannotWorkIsRefused) {
  const auto refused = [](ExporterOptions options) { const Exporter exporter(options); };
  for (const char* url : {"", "collector", "ftp://collector", "http://"}) {
    expect_error(ErrorCode::invalid_argument, [&] { refused({.url = url}); });
  }
  expect_error(ErrorCode::invalid_argument, [&] { refused({.headers = {{"a", "b\r\nc: d"}}}); });
  expect_error(ErrorCode::invalid_argument, [&] { refused({.headers = {{"", "b"}}}); });
  expect_error(ErrorCode::out_of_range, [&] { refused({.sampled_share = 1.5}); });
  expect_error(ErrorCode::out_of_range, [&] { refused({.max_queued = 0}); });
  expect_error(ErrorCode::out_of_range, [&] { refused({.interval = 0ms}); });
}

}  // namespace
}  // namespace oncebox::otlp
