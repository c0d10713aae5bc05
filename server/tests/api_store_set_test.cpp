// Stores that come and go while they are served.

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <set>

#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::server {
namespace {

namespace json = boost::json;

constexpr Duration kNever = std::chrono::hours{20};
constexpr auto kPatient = std::chrono::seconds{60};

/// A memory store that tells when it is closed, and whose inbox waits where it is told to.
class WatchedStore final : public ForwardingStore {
 public:
  struct Control {
    std::string hold = {};               ///< the call that waits
    std::promise<void> came = {};        ///< it has come
    std::shared_future<void> open = {};  ///< it may go on
    std::promise<void> closed = {};
  };

  explicit WatchedStore(std::shared_ptr<Control> control)
      : ForwardingStore(std::make_unique<memory::MemoryStore>()),
        control_(std::move(control)),
        inbox_(below().inbox(), [this](std::string_view call) {
          if (!control_->hold.empty() && call == control_->hold) {
            control_->hold.clear();
            control_->came.set_value();
            control_->open.wait();
          }
          return testing::Fault::none;
        }) {}
  ~WatchedStore() override { control_->closed.set_value(); }

  [[nodiscard]] QueueStore& inbox() override { return inbox_; }
  [[nodiscard]] Health health() noexcept override { return {}; }

 private:
  const std::shared_ptr<Control> control_;
  testing::FaultInjectingQueueStore inbox_;
};

class ServedSetTest : public ::testing::Test {
 protected:
  void list(std::vector<StoreLocation> locations) {
    const std::lock_guard lock(mutex_);
    listed_ = std::move(locations);
  }
  void set_down(const std::string& url, bool is_down) {
    const std::lock_guard lock(mutex_);
    if (is_down) {
      down_.insert(url);
    } else {
      down_.erase(url);
    }
  }
  /// Makes the next store at this URL one that can be watched.
  std::shared_ptr<WatchedStore::Control> watch(const std::string& url) {
    const std::lock_guard lock(mutex_);
    return controls_[url] = std::make_shared<WatchedStore::Control>();
  }

  ApiUnderTest& start(const std::string& default_store = "a") {
    options_.default_store = default_store;
    set_.emplace(
        [this] { return discover(); },
        [this](const StoreLocation& location) { return open(location); },
        StoreSetOptions{
            .refresh_interval = kNever, .first_retry = Duration{1}, .max_retry = Duration{5}},
        Surroundings{.logger = logger_});
    under_test_.emplace(options_, *set_, clock_);
    return *under_test_;
  }
  Response call(const TestCall& call) { return under_test_->call(call); }
  int status(const TestCall& made) { return call(made).status; }

  static TestCall message_to(const std::string& store, const std::string& id = "m") {
    return post("/v1/stores/" + store + "/messages",
                R"({"source":"shop","messageId":")" + id + R"(","topic":"t","payload":1})");
  }
  static TestCall find_in(const std::string& store, const std::string& id = "m") {
    return get("/v1/stores/" + store + "/messages/shop/" + id);
  }

  std::vector<StoreLocation> discover() {
    ++discoveries_;
    is_held_up_.wait(true);
    const std::lock_guard lock(mutex_);
    if (is_broken_) throw Error(ErrorCode::invalid_argument, "no list today");
    return listed_;
  }
  std::unique_ptr<Store> open(const StoreLocation& location) {
    const std::lock_guard lock(mutex_);
    if (down_.contains(location.url)) throw Error(ErrorCode::unavailable, "nobody@db answers");
    if (const auto control = controls_.find(location.url); control != controls_.end()) {
      return std::make_unique<WatchedStore>(control->second);
    }
    if (const auto before = before_rules_.find(location.url); before != before_rules_.end()) {
      return std::make_unique<FaultyRulesStore>(clock_, before->second);
    }
    return std::make_unique<memory::MemoryStore>();
  }

  std::size_t rules_in(const std::string& store) {
    const Response answer = call(get("/v1/stores/" + store + "/topics/policies"));
    return json_of(answer).at("policies").as_array().size();
  }

  ServerOptions options_ = quiet_options();
  std::mutex mutex_;
  std::vector<StoreLocation> listed_;
  std::set<std::string> down_;
  std::map<std::string, std::shared_ptr<WatchedStore::Control>> controls_;
  /// By URL: what is called before the rules of a store are read or changed.
  std::map<std::string, std::function<void()>> before_rules_;
  std::atomic<bool> is_broken_ = false;
  std::atomic<int> discoveries_ = 0;
  std::atomic<bool> is_held_up_ = false;
  SystemClock clock_;
  NullLogger logger_;
  std::optional<StoreSet> set_;
  std::optional<ApiUnderTest> under_test_;
};

TEST_F(ServedSetTest, AStoreThatComesIsServedAndOneThatGoesIsNot) {
  RecordProperty("requirement", "IBX-095,IBX-096,IBX-097");
  list({{"a", "url-a"}});
  start();
  EXPECT_EQ(status(message_to("b")), 404);
  list({{"a", "url-a"}, {"b", "url-b"}});
  EXPECT_EQ(call(post("/v1/stores/refresh", "")).body,
            R"({"added":["b"],"removed":[],"reopened":[],"down":[]})");
  EXPECT_EQ(status(message_to("a")), 200);
  EXPECT_EQ(status(message_to("b")), 200);
  list({{"b", "url-b"}});
  EXPECT_EQ(call(post("/v1/stores/refresh", "{}")).body,
            R"({"added":[],"removed":["a"],"reopened":[],"down":[]})");
  EXPECT_EQ(status(find_in("a")), 404);
  EXPECT_EQ(status(get("/v1/messages/shop/m")), 404) << "it was the default";
  EXPECT_EQ(status(find_in("b")), 200) << "what stayed is what it was";
}

TEST_F(ServedSetTest, OneThatMovedIsServedFromItsNewPlace) {
  list({{"a", "url-a"}});
  const auto old = watch("url-a");
  auto closed = old->closed.get_future();
  start();
  EXPECT_EQ(status(message_to("a")), 200);
  list({{"a", "url-elsewhere"}});
  EXPECT_EQ(json_of(call(post("/v1/stores/refresh", ""))).at("reopened").at(0), "a");
  EXPECT_EQ(status(find_in("a")), 404) << "there it is unknown";
  EXPECT_EQ(status(message_to("a", "new")), 200);
  EXPECT_EQ(closed.wait_for(kPatient), std::future_status::ready);
}

TEST_F(ServedSetTest, AClaimThatWaitsIsAnsweredEmptyWhenItsStoreGoes) {
  RecordProperty("requirement", "IBX-096");
  list({{"a", "url-a"}, {"b", "url-b"}});
  const auto control = watch("url-b");
  auto closed = control->closed.get_future();
  start();
  const auto exchange =
      under_test_->begin(post("/v1/stores/b/messages/claim", R"({"waitSeconds":60})"));
  ASSERT_TRUE(eventually([&] {
    return under_test_->metrics().expose().find("oncebox_waiting_claims{store=\"b\"} 1") !=
           std::string::npos;
  }));
  list({{"a", "url-a"}});
  set_->refresh();
  const Response response = exchange->wait();
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(json_of(response).at("messages").as_array().empty());
  EXPECT_EQ(closed.wait_for(kPatient), std::future_status::ready);
}

/// What is under way when a store goes: the call of the inbox that is held up, and the request.
struct UnderWay {
  std::string name;
  std::string held;
  TestCall call;
};

class UnderWayTest : public ServedSetTest, public ::testing::WithParamInterface<UnderWay> {};

INSTANTIATE_TEST_SUITE_P(
    Calls, UnderWayTest,
    ::testing::Values(
        UnderWay{"find", "find", get("/v1/stores/b/messages/shop/m")},
        UnderWay{"single", "enqueue",
                 post("/v1/stores/b/messages", R"({"source":"s","topic":"t","payload":1})")},
        UnderWay{"array", "enqueue",
                 post("/v1/stores/b/messages", R"([{"source":"s","topic":"t","payload":1}])")},
        UnderWay{"lines",
                 "enqueue",
                 {.target = "/v1/stores/b/messages",
                  .body = "{\"source\":\"s\",\"topic\":\"t\",\"payload\":1}\n",
                  .fields = {{"Content-Type", "application/x-ndjson"}}}},
        UnderWay{"claim", "claim", post("/v1/stores/b/messages/claim", "{}")},
        UnderWay{"waiting_claim", "claim",
                 post("/v1/stores/b/messages/claim", R"({"waitSeconds":60})")}),
    [](const auto& calls) { return calls.param.name; });

TEST_P(UnderWayTest, IsAnsweredAndThenTheStoreIsClosed) {
  RecordProperty("requirement", "IBX-096");
  list({{"a", "url-a"}, {"b", "url-b"}});
  const auto control = watch("url-b");
  control->hold = GetParam().held;
  std::promise<void> gate;
  control->open = gate.get_future().share();
  auto came = control->came.get_future();
  auto closed = control->closed.get_future();
  start();
  const auto exchange = under_test_->begin(GetParam().call);
  exchange->send_body(GetParam().call.body, 4'096);
  ASSERT_EQ(came.wait_for(kPatient), std::future_status::ready);

  list({{"a", "url-a"}});
  set_->refresh();
  EXPECT_EQ(status(find_in("b")), 404);
  EXPECT_EQ(status(message_to("a")), 200) << "the others do not wait for it";
  EXPECT_EQ(closed.wait_for(std::chrono::seconds{0}), std::future_status::timeout);
  gate.set_value();
  EXPECT_LT(exchange->wait().status, 500);
  exchange->forget_body();
  EXPECT_EQ(closed.wait_for(kPatient), std::future_status::ready);
}

TEST_F(ServedSetTest, WhatIsUnderWayIsAnsweredWhenTheServerEnds) {
  list({{"a", "url-a"}});
  const auto control = watch("url-a");
  control->hold = "enqueue";
  std::promise<void> gate;
  control->open = gate.get_future().share();
  auto came = control->came.get_future();
  start();
  const auto exchange = under_test_->begin(message_to("a"));
  came.wait();
  std::jthread end([this] { under_test_->destroy(); });
  gate.set_value();
  EXPECT_EQ(exchange->wait().status, 200);
}

TEST_F(ServedSetTest, AStoreThatIsDownIsUnavailableAndTheOthersAreNot) {
  list({{"a", "url-a"}, {"b", "url-b"}});
  set_down("url-b", true);
  start();
  EXPECT_EQ(status(message_to("a")), 200);
  const Response refused = call(message_to("b"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(problem_code(refused), "unavailable");
  EXPECT_TRUE(refused.fields.get("Retry-After"));
  EXPECT_EQ(refused.body.find("nobody@db"), std::string::npos) << refused.body;
  EXPECT_EQ(status(message_to("c")), 404);

  Readiness readiness;
  EXPECT_TRUE(eventually([&] {
    readiness = under_test_->api().readiness();
    return readiness.ready;
  }));
  EXPECT_TRUE(readiness.degraded);
  EXPECT_EQ(readiness.stores_down, 1U);
  const json::value down = json_of(call(get("/v1/stores"))).at("stores").at(1);
  EXPECT_EQ(down.at("state"), "Down");
  EXPECT_EQ(down.at("health"), "Unavailable");
  EXPECT_EQ(down.at("detail"), "nobody@db answers");
  const json::value health = json_of(call(get("/v1/health")));
  EXPECT_EQ(health.at("status"), "Degraded");
  const json::value& last = health.at("stores").as_array().back();
  EXPECT_EQ(last.at("name"), "b");
  EXPECT_EQ(last.at("health"), "Unavailable");
  EXPECT_FALSE(down.as_object().contains("capabilities"));

  set_down("url-b", false);
  EXPECT_TRUE(eventually([this] { return status(message_to("b")) == 200; }));
  EXPECT_TRUE(eventually([this] { return !under_test_->api().readiness().degraded; }));
}

TEST_F(ServedSetTest, AStoreInWhichTheRulesCannotBeSetYetHoldsUpNothing) {
  options_.retry = {.max_attempts = 3};
  list({{"a", "url-a"}, {"b", "url-b"}});
  std::promise<void> gate;
  before_rules_["url-a"] = [open = gate.get_future().share()] { open.wait(); };
  start();
  EXPECT_TRUE(eventually([this] { return rules_in("b") == 1; })) << "which comes after it";
  EXPECT_EQ(status(message_to("a")), 200) << "it is served by the rules that it has";
  list({{"a", "url-a"}, {"b", "url-b"}, {"c", "url-c"}});
  set_->refresh();
  EXPECT_EQ(status(message_to("c")), 200);
  EXPECT_TRUE(eventually([this] { return rules_in("c") == 1; }));
  gate.set_value();
  EXPECT_TRUE(eventually([this] { return rules_in("a") == 1; }));
}

TEST(ConfiguredRules, AreTriedAgainWhenTheyCouldNotBeSet) {
  testing::ManualClock clock;
  std::atomic<bool> is_down = true;
  FaultyRulesStore store(clock, [&] {
    if (is_down) throw Error(ErrorCode::unavailable, "the rules are not to be had");
  });
  ServerOptions options = quiet_options();
  options.retry = {.max_attempts = 3};
  ApiUnderTest under_test(options, {{"main", store}}, clock);
  EXPECT_TRUE(under_test.logger().wait_for("the configured rules and endpoints could not be set"));
  const TestCall message =
      post("/v1/messages", R"({"source":"shop","messageId":"m","topic":"t","payload":1})");
  EXPECT_EQ(under_test.call(message).status, 200);
  is_down = false;
  EXPECT_TRUE(eventually([&] {
    clock.advance(std::chrono::minutes{1});
    return store.rules() == 1;
  }));
}

TEST_F(ServedSetTest, IsNotReadyWithoutItsDefaultStore) {
  list({{"a", "url-a"}, {"b", "url-b"}});
  set_down("url-a", true);
  start();
  const Readiness readiness = under_test_->api().readiness();
  EXPECT_FALSE(readiness.ready);
  EXPECT_EQ(readiness.detail, "store a: nobody@db answers");
}

TEST_F(ServedSetTest, IsNotReadyWithoutAnyStore) {
  is_broken_ = true;
  start("");
  EXPECT_FALSE(under_test_->api().readiness().ready);
  is_broken_ = false;
  list({{"b", "url-b"}});
  set_->refresh();
  EXPECT_TRUE(eventually([this] { return under_test_->api().readiness().ready; }));
  const Response unnamed = call(get("/v1/messages/shop/m"));
  EXPECT_EQ(unnamed.status, 404);
  EXPECT_NE(problem_detail(unnamed).find("no default store"), std::string::npos);
}

TEST_F(ServedSetTest, ADiscoveryThatFailsIsToldAndChangesNothing) {
  list({{"a", "url-a"}});
  start();
  EXPECT_EQ(json_of(call(get("/v1/stores"))).at("discovery"),
            json::parse(R"({"health":"Healthy"})"));
  is_broken_ = true;
  const Response refused = call(post("/v1/stores/refresh", ""));
  EXPECT_EQ(refused.status, 503);
  const json::value told = json_of(call(get("/v1/stores"))).at("discovery");
  EXPECT_EQ(told.at("health"), "Degraded");
  EXPECT_NE(told.at("detail").as_string().find("no list today"), json::string::npos);
  EXPECT_EQ(status(message_to("a")), 200);
  EXPECT_TRUE(under_test_->api().readiness().degraded);
  is_broken_ = false;
  EXPECT_EQ(status(post("/v1/stores/refresh", "")), 200);
  EXPECT_EQ(json_of(call(get("/v1/stores"))).at("discovery").at("health"), "Healthy");
}

TEST_F(ServedSetTest, ThoseWhoRefreshAtTheSameTimeShareOneDiscovery) {
  list({{"a", "url-a"}});
  start();
  is_held_up_ = true;
  std::vector<std::shared_ptr<TestExchange>> asking;
  asking.push_back(under_test_->begin(post("/v1/stores/refresh", "")));
  ASSERT_TRUE(eventually([this] { return discoveries_ == 2; })) << "the first was at the start";
  // More than there are threads; all of them want to know of what is listed from now on.
  list({{"a", "url-a"}, {"b", "url-b"}});
  for (int i = 0; i < 20; ++i) asking.push_back(under_test_->begin(post("/v1/stores/refresh", "")));
  EXPECT_EQ(json_of(call(get("/v1/stores"))).at("stores").as_array().size(), 1U);
  EXPECT_EQ(status(message_to("a")), 200);
  for (const auto& exchange : asking) EXPECT_FALSE(exchange->answered());
  is_held_up_ = false;
  is_held_up_.notify_all();
  for (const auto& exchange : asking) EXPECT_EQ(exchange->wait().status, 200);
  EXPECT_EQ(discoveries_, 3);
  EXPECT_EQ(status(message_to("b")), 200);
  for (std::size_t i = 2; i < asking.size(); ++i) {
    EXPECT_EQ(asking[i]->wait().body, asking[1]->wait().body);
  }
}

TEST_F(ServedSetTest, AThousandStoresAreListedByPages) {
  std::vector<StoreLocation> many;
  for (int i = 1'000; i < 2'000; ++i) many.push_back({"t" + std::to_string(i), "url"});
  list(many);
  start("t1500");
  EXPECT_EQ(json_of(call(get("/v1/stores"))).at("stores").as_array().size(), 100U);
  std::set<std::string> seen;
  std::string target = "/v1/stores?limit=300";
  int pages = 0;
  for (bool has_more = true; has_more; ++pages) {
    const json::object page = json_of(call(get(target))).as_object();
    for (const json::value& store : page.at("stores").as_array()) {
      EXPECT_EQ(store.at("default").as_bool(), store.at("name") == "t1500");
      EXPECT_TRUE(!seen.empty() || store.at("name") == "t1500") << "it stands first";
      EXPECT_TRUE(seen.insert(store.at("name").as_string().c_str()).second);
    }
    has_more = page.contains("next");
    if (has_more) target = "/v1/stores?limit=300&after=" + std::string(page.at("next").as_string());
  }
  EXPECT_EQ(pages, 4);
  EXPECT_EQ(seen.size(), 1'000U);

  const json::value one = json_of(call(get("/v1/stores?name=t1999"))).at("stores");
  ASSERT_EQ(one.as_array().size(), 1U);
  EXPECT_EQ(one.at(0).at("name"), "t1999");
  EXPECT_TRUE(json_of(call(get("/v1/stores?name=no"))).at("stores").as_array().empty());
  for (const char* const bad :
       {"limit=0", "limit=1001", "limit=x", "after=%21", "page=2", "limit=99999999999999999999"}) {
    EXPECT_EQ(status(get(std::string("/v1/stores?") + bad)), 400) << bad;
  }
  EXPECT_EQ(status(post("/v1/stores/refresh", R"({"x":1})")), 400);
}

TEST_F(ServedSetTest, AStoreThatGoesLosesItsSeries) {
  list({{"a", "url-a"}, {"b", "url-b"}});
  start();
  EXPECT_EQ(status(message_to("b")), 200);
  const auto counts_b = [this] {
    return under_test_->metrics().expose().find("store=\"b\"") != std::string::npos;
  };
  EXPECT_TRUE(counts_b());
  list({{"a", "url-a"}});
  set_->refresh();
  const auto exchange = under_test_->begin(get("/v1/events"));  // then it is counted each second
  EXPECT_TRUE(eventually([&] { return !counts_b(); }));
}

TEST_F(ServedSetTest, EventsTellOfWorkInAStoreThatCameLater) {
  list({{"a", "url-a"}});
  start();
  const auto exchange = under_test_->begin(get("/v1/events"));
  const auto stream = exchange->stream();
  ASSERT_NE(stream, nullptr);
  list({{"a", "url-a"}, {"b", "url-b"}});
  set_->refresh();
  EXPECT_EQ(status(message_to("b")), 200);
  EXPECT_TRUE(stream->wait([](const std::string& text) {
    return text.find(R"(event: work
data: {"store":"b","queue":"inbox"})") != std::string::npos;
  }));
  EXPECT_TRUE(stream->wait([](const std::string& text) {
    return text.find(R"({"store":"b","queue":"inbox","stats")") != std::string::npos;
  }));
}

TEST_F(ServedSetTest, StoresComeAndGoUnderLoad) {
  list({{"a", "url-a"}, {"b", "url-b"}});
  start();
  std::atomic<bool> ends = false;
  std::atomic<int> answered = 0;
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      for (int turn = 0; !ends; ++turn) {
        const int enqueued =
            under_test_->call(message_to("b", std::to_string(i) + "-" + std::to_string(turn)))
                .status;
        const int claimed =
            under_test_->call(post("/v1/stores/b/messages/claim", R"({"waitSeconds":0.01})"))
                .status;
        for (const int got : {enqueued, claimed}) {
          EXPECT_TRUE(got == 200 || got == 404 || got == 503) << got;
        }
        ++answered;
      }
    });
  }
  for (int turn = 0; turn < 50; ++turn) {
    list({{"a", "url-a"}});
    set_->refresh();
    list({{"a", "url-a"}, {"b", "url-b" + std::to_string(turn)}});
    set_->refresh();
    const int before = answered;
    EXPECT_TRUE(eventually([&] { return answered > before; }));
  }
  ends = true;
}

}  // namespace
}  // namespace oncebox::server
