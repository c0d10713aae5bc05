#include <gtest/gtest.h>

#include <iterator>
#include <list>

#include "api/api_json.hpp"
#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "oncebox/driver/forwarding_key_store.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

/// Housekeeping that hardly rests.
ServerOptions busy_options() {
  ServerOptions options = quiet_options();
  options.retention.interval = Duration{1};
  options.retention.reap_interval = Duration{1};
  options.retention.done = std::chrono::hours{1};
  options.retention.dead = std::chrono::hours{2};
  return options;
}

class Housekeeping : public ApiTest {
 protected:
  Housekeeping() : ApiTest(busy_options()) {}
};
ONCEBOX_OVER_EACH_STORE(Housekeeping);

TEST_P(Housekeeping, EndsLapsedLeasesOfBothQueues) {
  for (Store* store : {store_.get(), second_.get()}) {
    for (QueueStore* queue : {&store->inbox(), &store->outbox()}) {
      queue->enqueue(Message{.key = {"shop", "m"}, .topic = "t"});
      (void)queue->claim({.owner = OwnerToken::generate(), .lease = std::chrono::seconds{10}});
    }
  }
  clock_.advance(std::chrono::seconds{10});
  for (Store* store : {store_.get(), second_.get()}) {
    for (QueueStore* queue : {&store->inbox(), &store->outbox()}) {
      EXPECT_TRUE(eventually([&] {
        const auto record = queue->find(MessageKey{"shop", "m"});
        return !record->lease && record->history.lapses == 1;
      }));
    }
  }
}

TEST_P(Housekeeping, RemovesInSmallBatchesWhatIsPastItsRetention) {
  RecordProperty("requirement", "R-22,KIN-09");
  std::vector<Message> messages;
  std::vector<Mark> marks;
  for (int i = 0; i < 1'200; ++i) {
    messages.push_back({.key = {"shop", "m" + std::to_string(i)}, .topic = "t"});
    marks.push_back(
        {.key = messages.back().key, .as = i % 2 == 0 ? MarkAs::processed : MarkAs::dead});
  }
  store_->inbox().enqueue(messages);
  store_->inbox().mark(marks);
  store_->outbox().enqueue(messages);
  store_->outbox().mark(marks);
  store_->keys().complete({.key = "k", .retention = std::chrono::minutes{90}});
  const auto left = [&](QueueOperator& queue) { return queue.count({}); };

  clock_.advance(std::chrono::hours{1});
  EXPECT_TRUE(eventually([&] {
    return left(store_->inbox_operator()) == 600 && left(store_->outbox_operator()) == 600;
  }));
  EXPECT_TRUE(store_->keys().find(IdempotencyKey("k")));
  clock_.advance(std::chrono::hours{1});
  EXPECT_TRUE(eventually(
      [&] { return left(store_->inbox_operator()) == 0 && left(store_->outbox_operator()) == 0; }));
  EXPECT_FALSE(store_->keys().find(IdempotencyKey("k")));
}

TEST_P(Housekeeping, AllowsAsManyDeliveriesAsThePolicyOfTheTopic) {
  RecordProperty("requirement", "R-31");
  store_->policies().update(QueueKind::inbox, "*", {.max_deliveries = 100});
  enqueue("m");
  for (int lapse = 0; lapse < defaults::kMaxDeliveries + 2; ++lapse) {
    const json::value claimed = json_of(call(post("/v1/messages/claim", R"({"leaseSeconds":1})")));
    ASSERT_EQ(claimed.at("messages").as_array().size(), 1U) << lapse;
    clock_.advance(std::chrono::seconds{1});
    ASSERT_TRUE(eventually([&] { return !record("m").lease; }));
  }
  EXPECT_EQ(record("m").status, Status::processing);
}

TEST(HousekeepingFaults, AFailingStoreIsLoggedAndTriedAgain) {
  RecordProperty("requirement", "IBX-113");
  testing::FakeClock clock;
  std::atomic<int> reaps = 0;
  FaultyStore store(clock, [&](std::string_view call) {
    return call == "reap" && ++reaps == 1 ? testing::Fault::before : testing::Fault::none;
  });
  ApiUnderTest under_test(busy_options(), {{"main", store}}, clock);
  EXPECT_TRUE(under_test.logger().wait_for("housekeeping failed, will be tried again store=main"));
  EXPECT_TRUE(eventually([&] { return reaps > 1; }));
}

/// Keys of which there are always more to remove, until it is told otherwise.
class EndlessKeys final : public ForwardingKeyStore {
 public:
  using ForwardingKeyStore::ForwardingKeyStore;

  std::atomic<bool> ends = false;

 private:
  std::size_t do_cleanup(std::size_t limit) override { return ends ? 0 : limit; }
};

class NeverClean final : public ForwardingStore {
 public:
  explicit NeverClean(const Clock& clock)
      : ForwardingStore(std::make_unique<memory::MemoryStore>(clock)), keys_(below().keys()) {}

  [[nodiscard]] IdempotencyStore& keys() override { return keys_; }
  void end() { keys_.ends = true; }

 private:
  EndlessKeys keys_;
};

TEST(HousekeepingFaults, AStoreThatStaysBehindForAnHourLags) {
  testing::FakeClock clock;
  NeverClean store(clock);
  ApiUnderTest under_test(busy_options(), {{"main", store}}, clock);
  const auto lags = [&] {
    const json::value health = json_of(under_test.call(get("/v1/health")));
    for (const json::value& found : health.at("findings").as_array()) {
      if (found.at("detail") != "more is past its retention than housekeeping removes") continue;
      EXPECT_EQ(found.at("code"), "StoreLagging");
      EXPECT_EQ(found.at("store"), "main");
      EXPECT_EQ(health.at("status"), "Degraded");
      return true;
    }
    return false;
  };
  EXPECT_FALSE(lags());
  // It may begin only after the clock was moved.
  EXPECT_TRUE(eventually([&] {
    clock.advance(std::chrono::minutes{10});
    return lags();
  }));
  store.end();
  EXPECT_TRUE(eventually([&] { return !lags(); }));
}

// Events ------------------------------------------------------------------------------------------

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class Events : public ApiTest {
 protected:
  explicit Events(const ServerOptions& options = quiet_options()) : ApiTest(options) {}

  std::shared_ptr<TestStream> listen() {
    const auto exchange = under_test_.begin(get("/v1/events"));
    const Response head = exchange->wait();
    EXPECT_EQ(head.status, 200) << head.body;
    EXPECT_EQ(head.content_type, "text/event-stream");
    EXPECT_EQ(head.fields.get("Cache-Control"), "no-store");
    return exchange->stream();
  }
};
ONCEBOX_OVER_EACH_STORE(Events);

TEST_P(Events, TellHowFullTheQueuesAre) {
  enqueue("m", "order.created");
  const auto stream = listen();
  ASSERT_NE(stream, nullptr);
  // The first ones may be from before.
  EXPECT_TRUE(stream->wait([](const std::string& text) {
    const std::size_t topic = text.find("order.created");
    return topic != text.npos && text.find("\n\n", topic) != text.npos;
  }));
  const std::string text = stream->text();
  EXPECT_TRUE(text.starts_with("retry: "));
  const std::string event = "event: stats\ndata: ";
  const std::size_t begin = text.rfind(event, text.find("order.created")) + event.size();
  const json::value stats = json::parse(text.substr(begin, text.find('\n', begin) - begin));
  ASSERT_EQ(stats.at("queues").as_array().size(), 6U);
  EXPECT_EQ(stats.at("queues").at(0).at("store"), "first");
  EXPECT_EQ(stats.at("queues").at(0).at("queue"), "inbox");
  EXPECT_EQ(stats.at("queues").at(0).at("stats").at("topics").at(0).at("ready"), 1);
  EXPECT_EQ(stats.at("queues").at(4).at("queue"), "outbox");
  EXPECT_EQ(stats.at("queues").at(5).at("queue"), "deliveries");
}

TEST_P(Events, KeepComingEverySecond) {
  const auto stream = listen();
  EXPECT_TRUE(stream->wait([](const std::string& text) {
    const std::size_t first = text.find("event: stats");
    return first != text.npos && text.find("event: stats", first + 1) != text.npos;
  }));
}

TEST_P(Events, TellThatAQueueHasWorkButNotForEachMessage) {
  const auto stream = listen();
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) enqueue("m" + std::to_string(i));
  const std::string event = "event: work\ndata: {\"store\":\"first\",\"queue\":\"inbox\"}\n\n";
  EXPECT_TRUE(stream->wait([&](const std::string& text) { return contains(text, event); }));
  const std::string text = stream->text();
  const auto took = std::chrono::steady_clock::now() - started;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(event, at)) != text.npos; at += event.size()) ++count;
  EXPECT_LE(count, 2 + static_cast<std::size_t>(took / Duration{50}));
}

TEST_P(Events, EndWhenTheServerDrains) {
  const auto stream = listen();
  under_test_.api().drain();
  EXPECT_TRUE(stream->wait_for_end());
  EXPECT_EQ(call(get("/v1/events")).status, 503);
}

TEST_P(Events, AHeadRequestGetsNoStream) {
  const auto exchange =
      under_test_.begin({.method = Method::head, .target = "/v1/events", .fields = {}});
  EXPECT_EQ(exchange->wait().content_type, "text/event-stream");
  EXPECT_EQ(exchange->stream(), nullptr);
}

TEST_P(Events, RefuseAQuery) { EXPECT_EQ(call(get("/v1/events?x=1")).status, 400); }

class FewEvents : public Events {
 protected:
  FewEvents() : Events(options()) {}
  static ServerOptions options() {
    ServerOptions few = quiet_options();
    few.limits.max_event_streams = 1;
    return few;
  }
};
ONCEBOX_OVER_EACH_STORE(FewEvents);

TEST_P(FewEvents, AStreamThatBrokeMakesRoomForAnother) {
  const auto stream = listen();
  const Response refused = call(get("/v1/events"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(problem_code(refused), "overloaded");
  EXPECT_TRUE(contains(problem_detail(refused), "limits.max_event_streams"))
      << problem_detail(refused);
  stream->break_off();
  EXPECT_TRUE(
      eventually([&] { return under_test_.begin(get("/v1/events"))->wait().status == 200; }));
}

TEST(EventPlaces, OneTokenDoesNotTakeThePlacesOfTheOthers) {
  RecordProperty("requirement", "R-38");
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  ServerOptions options = quiet_options();
  options.limits.max_event_streams = 4;
  ApiUnderTest under_test(options, {{"main", store}}, clock);
  const auto status_of = [&](const std::string& token) {
    TestCall call = get("/v1/events");
    call.principal = token;
    return under_test.begin(call)->wait().status;
  };
  EXPECT_EQ(status_of("greedy"), 200);
  EXPECT_EQ(status_of("greedy"), 200);
  EXPECT_EQ(status_of("greedy"), 503);
  EXPECT_EQ(status_of("modest"), 200);
  EXPECT_EQ(status_of("modest"), 503) << "one is left for others";
  EXPECT_EQ(status_of("another"), 200);
}

TEST_P(Events, TheMetricsKnowTheDepthAndTheHealth) {
  enqueue("m", "order.created");
  const auto stream = listen();
  EXPECT_TRUE(
      eventually([&] { return contains(under_test_.metrics().expose(), "order.created"); }));
}

TEST(EventSamples, OfManyTopicsTheBusiestAreTold) {
  QueueStats stats;
  for (std::size_t i = 0; i < 5'000; ++i) {
    stats.topics.push_back({.topic = Topic("topic" + std::to_string(i)), .ready = i, .done = 1});
  }
  const std::vector<QueueSample> samples{{"main", "inbox", stats}};
  const std::string text = write_samples(samples, testing::FakeClock::kDefaultStart);
  EXPECT_LT(text.size(), std::size_t{64} << 10);
  const json::value told = json::parse(text).at("queues").at(0).at("stats");
  EXPECT_EQ(told.at("topics").as_array().size(), kMaxSampledTopics);
  EXPECT_EQ(told.at("topics").at(0).at("topic"), "topic4900");
  EXPECT_EQ(told.at("omittedTopics"), 4'900);
  EXPECT_EQ(told.at("total").at("done"), 5'000) << "the total is that of all";
}

TEST(EventFaults, WorkThatCameBeforeTheStoreCouldBeListenedToIsToldToo) {
  const SystemClock clock;
  StuckStore stuck(clock);
  ServerOptions options = quiet_options();
  options.call_threads = 1;
  ApiUnderTest under_test(options, {{"main", stuck.store()}}, clock);
  const auto holding = under_test.begin(get("/v1/messages/s/m"));
  stuck.wait_for_first_look();
  const auto first = under_test.begin(get("/v1/events"));
  const auto second = under_test.begin(get("/v1/events"));
  stuck.store().inbox().enqueue(Message{.key = {"s", "m"}, .topic = "t"});
  stuck.let_go();
  for (const auto& exchange : {first, second}) {
    EXPECT_TRUE(exchange->stream()->wait([](const std::string& text) {
      return contains(text, R"(event: work
data: {"store":"main","queue":"inbox"})");
    }));
  }
}

TEST(EventFaults, AStoreThatDoesNotAnswerIsLoggedOnceAndLeftOut) {
  testing::FakeClock clock;
  FaultyStore store(clock, [](std::string_view) { return testing::Fault::none; });
  store.set_health(HealthStatus::unavailable);
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  EXPECT_TRUE(under_test.logger().wait_for("the store does not answer store=main"));
  const auto exchange = under_test.begin(get("/v1/events"));
  EXPECT_TRUE(exchange->stream()->wait(
      [](const std::string& text) { return contains(text, R"("queues":[])"); }));
}

TEST(EventFaults, StoresThatHangHoldUpNeitherTheEventsNorTheMetricsOfOthers) {
  const testing::FakeClock clock;
  memory::MemoryStore good(clock);
  good.inbox().enqueue(Message{.key = {"s", "m"}, .topic = "order.created"});
  std::list<SilentStore> silent;
  std::vector<NamedStore> stores;
  for (int i = 0; i < 10; ++i) {
    stores.push_back({"hangs" + std::to_string(i), silent.emplace_back(clock)});
  }
  stores.push_back({"working", good});
  ServerOptions options = quiet_options();
  options.call_threads = 16;  // all of them are as on one server
  ApiUnderTest under_test(options, stores, clock);
  const auto exchange = under_test.begin(get("/v1/events"));
  EXPECT_TRUE(exchange->stream()->wait([](const std::string& text) {
    return contains(text, R"({"store":"working","queue":"inbox","stats")");
  }));
  EXPECT_TRUE(contains(under_test.metrics().expose(), "order.created"));
  for (SilentStore& store : silent) store.let_go();
  EXPECT_TRUE(exchange->stream()->wait([](const std::string& text) {
    return contains(text, R"({"store":"hangs9","queue":"outbox","stats")");
  })) << "it is told when it answers";
}

TEST(EventFaults, OfManyStoresThatFailEachIsAskedAgainInItsTurn) {
  const testing::FakeClock clock;
  std::list<FaultyStore> faulty;
  std::vector<NamedStore> stores;
  for (char name = 'a'; name < 'u'; ++name) {
    FaultyStore& store =
        faulty.emplace_back(clock, [](std::string_view) { return testing::Fault::none; });
    stores.push_back({std::string(1, name), store});
    if (name < 'f') store.set_health(HealthStatus::unavailable);
  }
  ApiUnderTest under_test(quiet_options(), stores, clock);
  const auto is_up = [&](const std::string& name, const std::string& value) {
    return contains(under_test.metrics().expose(),
                    "oncebox_store_up{store=\"" + name + "\"} " + value + "\n");
  };
  const auto exchange = under_test.begin(get("/v1/events"));  // then it is counted each second
  EXPECT_TRUE(eventually([&] { return is_up("e", "0"); }));
  std::next(faulty.begin(), 4)->set_health(HealthStatus::healthy);
  EXPECT_TRUE(eventually([&] { return is_up("e", "1"); })) << "while four others stay down";
  EXPECT_TRUE(is_up("a", "0"));
}

}  // namespace

}  // namespace oncebox::server
