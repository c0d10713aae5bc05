// What stands in the outboxes goes to the endpoints.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "api/ready_stores.hpp"
#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "watched.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

constexpr std::size_t kAtOnce = 4;  // by the usual rule of an endpoint
constexpr std::size_t kFullOutbox = 20;

/// A receiver that answers as it is told, once it is no longer held.
struct Receiver {
  std::atomic<int> status = 200;
  Watched<bool> is_held;
  Watched<bool> has_one_in_hand;
  testing::ScriptedServer server{[this](const testing::ReceivedRequest&) {
    has_one_in_hand.change([](bool& has) { has = true; });
    (void)is_held.wait_for(false);
    return testing::Reaction{.status = status};
  }};

  [[nodiscard]] std::set<std::string> ids() const {
    std::set<std::string> ids;
    for (const auto& request : server.requests()) ids.insert(request.fields.at("webhook-id"));
    return ids;
  }
};

ServerOptions publishing_to(const Receiver& receiver) {
  ServerOptions options = quiet_options();
  options.publish.endpoints = {{.name = "crm",
                                .url = receiver.server.url(),
                                .topics = {"order.*"},
                                .secrets = {"literal:whsec_Zmlyc3Qtc2VjcmV0"},
                                .allow_private = true,
                                .policy = {.max_attempts = 1}}};
  options.publish.workers = 2;
  return options;
}

/// Of a server that publishes.
class PublishingServerTest : public ApiTest {
 protected:
  PublishingServerTest() : PublishingServerTest(std::make_shared<Receiver>()) {}
  explicit PublishingServerTest(std::shared_ptr<Receiver> receiver)
      : ApiTest(publishing_to(*receiver)), receiver_(std::move(receiver)) {}
  ~PublishingServerTest() override { under_test_.destroy(); }

  void send(const std::string& id) {
    call(post("/v1/outbox/messages", R"({"source":"shop","messageId":")" + id +
                                         R"(","topic":"order.paid","payload":{"amount":1}})"));
  }
  [[nodiscard]] std::optional<MessageRecord> delivery(const std::string& id) {
    return store_->deliveries().find(MessageKey{"shop", MessageId(id + "@crm")});
  }

  const std::shared_ptr<Receiver> receiver_;
};
ONCEBOX_OVER_EACH_STORE(PublishingServerTest);

TEST_P(PublishingServerTest, WhatComesIntoTheOutboxGoesToTheConfiguredEndpoint) {
  RecordProperty("requirement", "R-37");
  send("1");
  ASSERT_TRUE(receiver_->server.wait_for_requests(1));
  const testing::ReceivedRequest request = receiver_->server.requests().at(0);
  EXPECT_EQ(request.body, R"({"amount":1})");
  EXPECT_EQ(request.fields.at("webhook-id"), "shop:1");
  EXPECT_TRUE(eventually([&] {
    const auto found = delivery("1");
    return found && found->status == Status::done;
  }));
}

TEST_P(PublishingServerTest, WhatFailsForGoodIsDeadAmongTheDeliveries) {
  RecordProperty("requirement", "R-37");
  receiver_->status = 422;
  send("1");
  ASSERT_TRUE(eventually([&] {
    const auto found = delivery("1");
    return found && found->status == Status::dead;
  }));
  const json::value dead = json_of(call(get("/v1/deliveries/dead")));
  EXPECT_EQ(dead.at("messages").at(0).at("topic"), "crm");
}

TEST_P(PublishingServerTest, FanOutAndDeliveriesAreAmongTheMetrics) {
  const auto shows = [&](const std::string& line) {
    return eventually(
        [&] { return under_test_.metrics().expose().find(line + " 1\n") != std::string::npos; });
  };
  send("1");
  EXPECT_TRUE(shows(R"(oncebox_messages_settled_total{outcome="settled",queue="outbox",)"
                    R"(store="first",verdict="ack"})"));
  EXPECT_TRUE(shows(R"(oncebox_handler_duration_seconds_count{queue="deliveries",store="first",)"
                    R"(topic="crm"})"));
  EXPECT_TRUE(shows(R"(oncebox_messages_settled_total{outcome="settled",queue="deliveries",)"
                    R"(store="first",verdict="ack"})"));
  receiver_->status = 422;
  send("2");
  EXPECT_TRUE(
      shows(R"(oncebox_messages_dead_total{cause="failed",queue="deliveries",store="first"})"));
  EXPECT_EQ(under_test_.metrics().expose().find("oncebox_dispatcher_"), std::string::npos)
      << "these are looked at when somebody asks";
  under_test_.api().show_publishing();
  EXPECT_TRUE(under_test_.metrics().expose().find("oncebox_dispatcher_messages{") !=
              std::string::npos);
}

TEST_P(PublishingServerTest, ADrainBeginsNothingAndLetsDeliveriesEnd) {
  RecordProperty("requirement", "R-37");
  receiver_->is_held.change([](bool& held) { held = true; });
  for (std::size_t i = 0; i < kFullOutbox; ++i) send(std::to_string(i));
  ASSERT_TRUE(receiver_->has_one_in_hand.wait_for(true));
  under_test_.api().drain();
  receiver_->is_held.change([](bool& held) { held = false; });
  under_test_.api().finish_publishing(kPatience);

  const std::set<std::string> ids = receiver_->ids();
  EXPECT_EQ(receiver_->server.requests().size(), ids.size()) << "none was sent twice";
  EXPECT_LE(ids.size(), kAtOnce) << "none was begun after the drain";
  for (std::size_t i = 0; i < kFullOutbox; ++i) {
    const std::optional<MessageRecord> found = delivery(std::to_string(i));
    if (ids.contains("shop:" + std::to_string(i))) {
      ASSERT_TRUE(found);
      EXPECT_EQ(found->status, Status::done) << "its end was recorded";
    } else if (found) {
      EXPECT_EQ(found->status, Status::processing);
      EXPECT_EQ(found->history.attempt, 0);
    }
  }
}

/// Stores with a full outbox, some of which take long to have their endpoints set.
class FullOutboxTest : public ::testing::Test {
 protected:
  ~FullOutboxTest() override {
    open_.set_value();
    under_test_.reset();
  }

  /// The first one is the default store.
  void start(const std::vector<std::string>& names) {
    list(names);
    ServerOptions options = publishing_to(receiver_);
    options.default_store = names.front();
    under_test_.emplace(options, *set_, clock_);
  }
  void list(const std::vector<std::string>& names) {
    listed_.change([&](std::vector<StoreLocation>& all) {
      all.clear();
      for (const std::string& name : names) all.push_back({name, name});
    });
    set_->refresh();
  }
  /// The endpoints of a store whose name begins with "slow" are not set before this.
  void let_set() { std::exchange(open_, {}).set_value(); }

  [[nodiscard]] static std::string id(const std::string& store, std::size_t number) {
    return store + ":" + std::to_string(number);
  }
  /// Whether the receiver has all that this store had in its outbox.
  [[nodiscard]] bool has_all_of(const std::string& store) const {
    return eventually([&] {
      const std::set<std::string> ids = receiver_.ids();
      std::size_t found = 0;
      while (found < kFullOutbox && ids.contains(id(store, found))) ++found;
      return found == kFullOutbox;
    });
  }
  [[nodiscard]] std::size_t waiting_in(const std::string& store) {
    return set_->find(store)->store().outbox_operator().stats().total().ready;
  }

  std::unique_ptr<Store> open(const StoreLocation& location) {
    auto store = std::make_unique<FaultyRulesStore>(
        clock_, [is_slow = location.name.starts_with("slow"), gate = gate_] {
          if (is_slow) gate.wait();
        });
    for (std::size_t i = 0; i < kFullOutbox; ++i) {
      store->outbox().enqueue(Message{.key = {Source(location.name), MessageId(std::to_string(i))},
                                      .topic = "order.paid",
                                      .payload = "{}"});
    }
    return store;
  }

  SystemClock clock_;
  NullLogger logger_;
  Receiver receiver_;
  std::promise<void> open_;
  const std::shared_future<void> gate_ = open_.get_future().share();
  Watched<std::vector<StoreLocation>> listed_;
  std::optional<StoreSet> set_{std::in_place, [this] { return listed_.get(); },
                               [this](const StoreLocation& location) { return open(location); },
                               StoreSetOptions{}, Surroundings{.logger = logger_}};
  std::optional<ApiUnderTest> under_test_;
};

TEST_F(FullOutboxTest, WaitsUntilTheConfiguredEndpointsAreSet) {
  RecordProperty("requirement", "R-37");
  start({"slow", "quick"});
  ASSERT_TRUE(has_all_of("quick")) << "it does not wait for the other";
  EXPECT_EQ(waiting_in("slow"), kFullOutbox);
  let_set();
  EXPECT_TRUE(has_all_of("slow"));
}

TEST_F(FullOutboxTest, WaitsInAStoreThatIsDiscoveredLater) {
  RecordProperty("requirement", "R-37");
  start({"first"});
  ASSERT_TRUE(has_all_of("first"));
  list({"first", "slow"});
  list({"first", "slow", "last"});
  ASSERT_TRUE(has_all_of("last"));
  EXPECT_EQ(waiting_in("slow"), kFullOutbox);
  let_set();
  EXPECT_TRUE(has_all_of("slow"));
}

TEST(PublishOptions, RefusesWhatCannotWork) {
  const PublishEndpoint crm{.name = "crm", .url = "oncebox+https://crm.example/v1"};
  const auto refusal_of = [](std::vector<PublishEndpoint> endpoints) -> std::string {
    try {
      PublishOptions{.endpoints = std::move(endpoints)}.validate();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  const auto in = [&](const std::string& store) {
    PublishEndpoint endpoint = crm;
    endpoint.store = store;
    return endpoint;
  };
  EXPECT_EQ(refusal_of({crm}), "");
  EXPECT_EQ(refusal_of({in("a"), in("b")}), "");
  const std::string twice = "publish \"crm\": there is another one of this name for the same store";
  EXPECT_EQ(refusal_of({crm, crm}), twice);
  EXPECT_EQ(refusal_of({in("a"), in("a")}), twice);
  EXPECT_EQ(refusal_of({in("a"), crm}), twice) << "one for all stores is one for this, too";
  PublishEndpoint bus = crm;
  bus.url = "amqp://bus.example";
  EXPECT_NE(refusal_of({bus}).find("not with amqp://"), std::string::npos);
}

/// Writes down what it is told.
class WritingListener final : public StoreSetListener {
 public:
  void on_opened(const MemberStorePtr& member) noexcept override { told += "+" + member->name(); }
  void on_removed(const MemberStorePtr& member) noexcept override { told += "-" + member->name(); }

  std::string told;
};

TEST(ReadyStores, TellOfAStoreOnceItIsReadyAndOnlyWhileItIsOpen) {
  const auto member = [](const std::string& name) {
    return std::make_shared<MemberStore>(name, "", std::make_unique<memory::MemoryStore>());
  };
  const MemberStorePtr early = member("early");
  const MemberStorePtr late = member("late");
  const MemberStorePtr gone = member("gone");
  ReadyStores stores;
  for (const MemberStorePtr& one : {early, late, gone}) stores.on_opened(one);
  stores.on_ready(early);
  const auto listener = std::make_shared<WritingListener>();
  stores.listen(listener);
  EXPECT_EQ(listener->told, "+early");
  stores.on_removed(gone);
  stores.on_ready(gone);
  stores.on_ready(late);
  stores.on_ready(late);
  EXPECT_EQ(listener->told, "+early+late");
  stores.on_removed(early);
  EXPECT_EQ(listener->told, "+early+late-early");
}

}  // namespace

}  // namespace oncebox::server
