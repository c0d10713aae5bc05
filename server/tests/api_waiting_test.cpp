#include <gtest/gtest.h>

#include <thread>

#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "oncebox/wire/queue_json.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

constexpr const char* kWaiting = R"({"waitSeconds":60})";

std::size_t messages_in(const Response& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  return json_of(response).at("messages").as_array().size();
}

/// On the machine's clock, so that what is due comes by itself.
class WaitingClaimsTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  explicit WaitingClaimsTest(const ServerOptions& options = quiet_options())
      : under_test_(options, {{"main", *store_}}, clock_) {}

  std::shared_ptr<TestExchange> begin_claim(const std::string& body = kWaiting) {
    return under_test_.begin(post("/v1/messages/claim", body));
  }
  /// Begins a claim, and returns when it waits.
  std::shared_ptr<TestExchange> wait_claim(const std::string& body = kWaiting) {
    const double before = waiting();
    auto exchange = begin_claim(body);
    EXPECT_TRUE(eventually([&] { return waiting() > before; })) << "it does not wait";
    return exchange;
  }
  [[nodiscard]] double metric(const std::string& name) {
    const std::string text = under_test_.metrics().expose();
    const std::string line = "\n" + name + " ";
    const std::size_t at = text.find(line);
    return at == text.npos ? 0 : std::stod(text.substr(at + line.size()));
  }
  [[nodiscard]] double waiting() { return metric(R"(oncebox_waiting_claims{store="main"})"); }
  void enqueue(const std::string& id, const std::string& topic = "t", std::string more = "") {
    const Response response = under_test_.call(
        post("/v1/messages", R"({"source":"s","messageId":")" + id + R"(","topic":")" + topic +
                                 R"(","payload":"")" + more + "}"));
    ASSERT_EQ(response.status, 200) << response.body;
  }
  [[nodiscard]] std::optional<MessageRecord> find(const std::string& id) {
    return store_->inbox().find(MessageKey{"s", id});
  }

  SystemClock clock_;
  testing::TemporaryFolder folder_;
  std::unique_ptr<Store> store_ = make_store(GetParam(), clock_, folder_);
  ApiUnderTest under_test_;
};
ONCEBOX_OVER_EACH_STORE(WaitingClaimsTest);

TEST_P(WaitingClaimsTest, AClaimThatMayNotWaitIsAnsweredEmptyAtOnce) {
  EXPECT_EQ(messages_in(begin_claim("{}")->wait()), 0U);
}

TEST_P(WaitingClaimsTest, AnEnqueueWakesAClaim) {
  const auto claim = wait_claim();
  EXPECT_FALSE(claim->answered());
  enqueue("m");
  EXPECT_EQ(messages_in(claim->wait()), 1U);
  EXPECT_EQ(waiting(), 0);
}

TEST_P(WaitingClaimsTest, ADueTimeWakesAClaim) {
  const std::string due = format_rfc3339(clock_.now() + Duration{150});
  enqueue("m", "t", R"(,"dueAt":")" + due + R"(")");
  // Whether it ever waits is up to the machine.
  EXPECT_EQ(messages_in(begin_claim()->wait()), 1U);
  EXPECT_GE(clock_.now(), parse_rfc3339(due));
}

TEST_P(WaitingClaimsTest, ADueTimeThatIsEnqueuedWhileAClaimWaitsWakesItToo) {
  const auto claim = wait_claim();
  const std::string due = format_rfc3339(clock_.now() + Duration{150});
  enqueue("m", "t", R"(,"dueAt":")" + due + R"(")");
  EXPECT_EQ(messages_in(claim->wait()), 1U);
  EXPECT_GE(clock_.now(), parse_rfc3339(due));
}

TEST_P(WaitingClaimsTest, ALeaseThatLapsesWakesAClaim) {
  enqueue("m");
  EXPECT_EQ(messages_in(begin_claim(R"({"leaseSeconds":0.2})")->wait()), 1U);
  // Whether it ever waits is up to the machine.
  EXPECT_EQ(messages_in(begin_claim()->wait()), 1U);
  EXPECT_EQ(find("m")->history.lapses, 1);
}

TEST_P(WaitingClaimsTest, AReleaseWakesAClaim) {
  enqueue("m");
  const json::value held = json_of(begin_claim("{}")->wait());
  const auto claim = wait_claim();
  const std::string owner = held.at("owner").as_string().c_str();
  under_test_.call(post("/v1/messages/settle",
                        R"({"items":[{"source":"s","messageId":"m","verdict":"Release","owner":")" +
                            owner + R"("}]})"));
  EXPECT_EQ(messages_in(claim->wait()), 1U);
}

TEST_P(WaitingClaimsTest, AClaimIsAnsweredEmptyWhenItsTimeIsOver) {
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(messages_in(begin_claim(R"({"waitSeconds":0.1})")->wait()), 0U);
  EXPECT_GE(std::chrono::steady_clock::now() - started, Duration{100});
  EXPECT_EQ(waiting(), 0);
}

TEST_P(WaitingClaimsTest, TheOldestClaimIsServedFirst) {
  const auto first = wait_claim(R"({"waitSeconds":60,"limit":1})");
  const auto second = wait_claim(R"({"waitSeconds":60,"limit":1})");
  const auto third = wait_claim(R"({"waitSeconds":60,"limit":1})");
  enqueue("m1");
  EXPECT_EQ(messages_in(first->wait()), 1U);
  EXPECT_FALSE(second->answered());
  enqueue("m2");
  EXPECT_EQ(messages_in(second->wait()), 1U);
  EXPECT_FALSE(third->answered());
  enqueue("m3");
  EXPECT_EQ(messages_in(third->wait()), 1U);
}

TEST_P(WaitingClaimsTest, AClaimForAnotherTopicKeepsWaiting) {
  const auto mail = wait_claim(R"({"waitSeconds":60,"topics":{"only":["mail.*"]}})");
  const auto order = wait_claim(R"({"waitSeconds":60,"topics":{"only":["order.*"]}})");
  enqueue("m1", "order.paid");
  EXPECT_EQ(messages_in(order->wait()), 1U);
  EXPECT_FALSE(mail->answered());
  enqueue("m2", "mail.sent");
  EXPECT_EQ(messages_in(mail->wait()), 1U);
}

TEST_P(WaitingClaimsTest, AClaimWhoseClientIsGoneTakesNothing) {
  const auto gone = wait_claim();
  const auto other = wait_claim();
  gone->go_away();
  EXPECT_TRUE(eventually([&] { return waiting() == 1; }));
  enqueue("m");
  EXPECT_EQ(messages_in(other->wait()), 1U);
  EXPECT_EQ(messages_in(gone->wait()), 0U) << "it may have closed only its own side";
  EXPECT_EQ(find("m")->history.deliveries, 1);
}

TEST_P(WaitingClaimsTest, WhatCouldNotBeDeliveredIsGivenToTheNextClaim) {
  const auto unlucky = wait_claim();
  enqueue("m");
  const Response lost = unlucky->wait();
  EXPECT_EQ(messages_in(lost), 1U);
  const auto next = wait_claim();
  ASSERT_TRUE(lost.undelivered);
  lost.undelivered();
  EXPECT_EQ(messages_in(next->wait()), 1U);
  EXPECT_EQ(find("m")->history.deliveries, 2);
  EXPECT_EQ(find("m")->history.attempt, 0) << "nobody has tried it";

  // The lease is another's now, and stays so.
  lost.undelivered();
  const std::string lost_leases =
      "oncebox_messages_settled_total"
      R"({outcome="lease_lost",queue="inbox",store="main",verdict="release"})";
  EXPECT_TRUE(eventually([&] { return metric(lost_leases) == 1; }));
  EXPECT_TRUE(find("m")->lease);
}

TEST_P(WaitingClaimsTest, AClaimThatNeedNotWaitIsGivenBackToo) {
  enqueue("m1");
  enqueue("m2");
  const Response lost = begin_claim()->wait();
  EXPECT_EQ(messages_in(lost), 2U);
  ASSERT_TRUE(lost.undelivered);
  lost.undelivered();
  EXPECT_TRUE(eventually([&] { return !find("m1")->lease && !find("m2")->lease; }));
  EXPECT_EQ(messages_in(begin_claim("{}")->wait()), 2U);
}

TEST_P(WaitingClaimsTest, WhatCouldNotBeDeliveredAfterTheEndWaitsForItsLease) {
  enqueue("m");
  const Response lost = begin_claim("{}")->wait();
  under_test_.destroy();
  ASSERT_TRUE(lost.undelivered);
  lost.undelivered();
  EXPECT_TRUE(find("m")->lease);
}

TEST_P(WaitingClaimsTest, APausedTopicIsNotHandedOutAndAResumedOneWakes) {
  under_test_.call(post("/v1/topics/pause", R"({"topic":"order.*"})"));
  enqueue("m", "order.paid");
  EXPECT_EQ(messages_in(begin_claim("{}")->wait()), 0U);
  EXPECT_EQ(messages_in(begin_claim(R"({"topics":{"only":["order.paid"]}})")->wait()), 0U);
  const auto claim = wait_claim();
  const auto exact = wait_claim(R"({"waitSeconds":60,"topics":{"only":["order.paid"]}})");
  enqueue("other", "mail");
  EXPECT_EQ(messages_in(claim->wait()), 1U);
  EXPECT_FALSE(exact->answered());
  under_test_.call(post("/v1/topics/resume", R"({"topic":"order.*"})"));
  EXPECT_EQ(messages_in(exact->wait()), 1U);
}

TEST_P(WaitingClaimsTest, DrainingAnswersWhatWaitsAndLetsNothingWaitAnyMore) {
  const auto claim = wait_claim();
  under_test_.api().drain();
  EXPECT_EQ(messages_in(claim->wait()), 0U);
  EXPECT_EQ(messages_in(begin_claim()->wait()), 0U);
  enqueue("m");
  EXPECT_EQ(messages_in(begin_claim()->wait()), 1U) << "calls go on";
}

TEST_P(WaitingClaimsTest, WhatWaitsIsAnsweredWhenTheServerEnds) {
  const auto claim = wait_claim();
  under_test_.destroy();
  EXPECT_EQ(messages_in(claim->wait()), 0U);
  claim->go_away();
  EXPECT_EQ(store_->inbox().enqueue(Message{.key = {"s", "late"}, .topic = "t"}).status,
            EnqueueStatus::accepted)
      << "nobody listens any more";
}

TEST_P(WaitingClaimsTest, EveryMessageReachesOneOfManyClaims) {
  constexpr int kWorkers = 8;
  constexpr int kMessages = 400;
  std::atomic<int> handled = 0;
  std::vector<std::jthread> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&] {
      while (handled < kMessages) {
        const Response response = begin_claim(R"({"waitSeconds":1,"limit":3})")->wait();
        const json::value claimed = json_of(response);
        json::array items;
        for (const json::value& message : claimed.at("messages").as_array()) {
          items.push_back(json::object{{"source", message.at("source")},
                                       {"messageId", message.at("messageId")},
                                       {"verdict", "Ack"}});
        }
        if (items.empty()) continue;
        const auto count = static_cast<int>(items.size());
        const Response settled = under_test_.call(
            post("/v1/messages/settle",
                 json::serialize(json::object{{"owner", claimed.at("owner")}, {"items", items}})));
        EXPECT_EQ(settled.body.find("LeaseLost"), std::string::npos);
        handled += count;
      }
    });
  }
  std::vector<std::jthread> senders;
  for (int sender = 0; sender < 4; ++sender) {
    senders.emplace_back([this, sender] {
      for (int i = 0; i < kMessages / 4; ++i) {
        enqueue(std::to_string(sender) + "-" + std::to_string(i));
      }
    });
  }
  senders.clear();
  workers.clear();
  EXPECT_EQ(handled, kMessages);
  const TopicStats total = store_->inbox_operator().stats().total();
  EXPECT_EQ(total.done, static_cast<std::size_t>(kMessages));
}

TEST_P(WaitingClaimsTest, ClaimsThatComeAndGoLoseNothing) {
  constexpr int kMessages = 100;
  std::atomic<bool> stop = false;
  std::jthread fickle([&] {
    while (!stop) {
      const auto claim = begin_claim();
      claim->go_away();
    }
  });
  for (int i = 0; i < kMessages; ++i) enqueue("m" + std::to_string(i));
  stop = true;
  fickle.join();
  // Those whose clients went away in time gave everything back; the answers of the others were
  // sent. Whatever is held is held by an answered claim.
  EXPECT_TRUE(eventually([&] { return waiting() == 0; }));
  const TopicStats total = store_->inbox_operator().stats().total();
  EXPECT_EQ(total.ready + total.leased, static_cast<std::size_t>(kMessages));
}

TEST_P(WaitingClaimsTest, ARevokedTokenEndsTheClaimThatWaits) {
  const auto revoked = wait_claim();
  const auto other = wait_claim();
  revoked->revoke_token();
  under_test_.api().check_tokens();
  EXPECT_EQ(revoked->wait().status, 401);
  EXPECT_EQ(waiting(), 1);
  EXPECT_FALSE(other->answered());
}

TEST_P(WaitingClaimsTest, AChangedTokenAnswersTheClaimEmptySoThatItsClientAsksAgain) {
  const auto claim = wait_claim();
  claim->change_token();
  under_test_.api().check_tokens();
  EXPECT_EQ(messages_in(claim->wait()), 0U);
  EXPECT_EQ(waiting(), 0);
}

TEST_P(WaitingClaimsTest, ARevokedTokenGetsNoMessageThatComesBeforeItIsLookedAt) {
  const auto claim = wait_claim();
  claim->revoke_token();
  enqueue("m");
  EXPECT_EQ(claim->wait().status, 401);
  EXPECT_TRUE(eventually([&] { return find("m").value().state == State::ready; }));
}

TEST_P(WaitingClaimsTest, AClaimWithTooManyTopicPatternsIsToldHowManyItMayHave) {
  std::string patterns;
  for (int i = 0; i < 257; ++i) patterns += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) + '"';
  for (const char* path : {"/v1/messages/claim", "/v1/messages/next-due"}) {
    const Response response =
        under_test_.call(post(path, R"({"topics":{"only":[)" + patterns + "]}}"));
    EXPECT_EQ(response.status, 400) << path;
    EXPECT_NE(problem_detail(response).find("256"), std::string::npos) << problem_detail(response);
  }
}

class FewPlacesTest : public WaitingClaimsTest {
 protected:
  FewPlacesTest() : WaitingClaimsTest(options()) {}
  static ServerOptions options() {
    ServerOptions few = quiet_options();
    few.limits.max_waiting_claims = 4;
    return few;
  }

  std::shared_ptr<TestExchange> begin_claim_of(const std::string& token, const std::string& peer) {
    TestCall call = post("/v1/messages/claim", kWaiting);
    call.principal = token;
    call.peer = peer;
    return under_test_.begin(call);
  }
  /// Begins a claim that gets a place.
  std::shared_ptr<TestExchange> wait_claim_of(const std::string& token, const std::string& peer) {
    const double before = waiting();
    auto exchange = begin_claim_of(token, peer);
    EXPECT_TRUE(eventually([&] { return waiting() > before; })) << token << " at " << peer;
    return exchange;
  }
};
ONCEBOX_OVER_EACH_STORE(FewPlacesTest);

TEST_P(FewPlacesTest, OneTokenDoesNotTakeThePlacesOfTheOthers) {
  const auto greedy = wait_claim_of("greedy", "192.0.2.1");
  const auto greedy_elsewhere = wait_claim_of("greedy", "192.0.2.2");
  EXPECT_EQ(begin_claim_of("greedy", "192.0.2.3")->wait().status, 503);
  const auto modest = wait_claim_of("modest", "192.0.2.1");
  EXPECT_EQ(begin_claim_of("modest", "192.0.2.1")->wait().status, 503) << "one is left for others";
  const auto another = wait_claim_of("another", "192.0.2.1");
  EXPECT_EQ(begin_claim_of("late", "192.0.2.1")->wait().status, 503) << "all are taken";
}

TEST_P(FewPlacesTest, WithoutATokenAnAddressDoesNotTakeThePlacesOfTheOthers) {
  const auto first = wait_claim_of("anonymous", "192.0.2.1");
  const auto second = wait_claim_of("anonymous", "192.0.2.1");
  EXPECT_EQ(begin_claim_of("anonymous", "192.0.2.1")->wait().status, 503);
  const auto other = wait_claim_of("anonymous", "192.0.2.2");
}

TEST_P(FewPlacesTest, WithoutATokenANetworkOfIPv6IsOneCaller) {
  const auto first = wait_claim_of("anonymous", "2001:db8:0:1::1");
  const auto second = wait_claim_of("anonymous", "2001:db8:0:1::2");
  EXPECT_EQ(begin_claim_of("anonymous", "2001:db8:0:1:ffff::3")->wait().status, 503);
  const auto other = wait_claim_of("anonymous", "2001:db8:0:2::1");
}

TEST_P(FewPlacesTest, OneClaimTooManyIsToldToComeBack) {
  RecordProperty("requirement", "R-38");
  const auto first = wait_claim();
  const auto second = wait_claim();
  const Response refused = begin_claim()->wait();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(problem_code(refused), "overloaded");
  EXPECT_TRUE(refused.fields.get("Retry-After"));
  first->go_away();
  EXPECT_TRUE(eventually([&] { return waiting() == 1; }));
  const auto third = wait_claim();
  EXPECT_FALSE(third->answered());
}

TEST(WaitingClaimFaults, AStoreThatFailsIsToldToThoseWhoWait) {
  const SystemClock clock;
  std::atomic<bool> broken = false;
  FaultyStore store(clock, [&](std::string_view call) {
    return broken && call == "next_due" ? testing::Fault::before : testing::Fault::none;
  });
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  const auto first = under_test.begin(post("/v1/messages/claim", kWaiting));
  const auto second = under_test.begin(post("/v1/messages/claim", kWaiting));
  EXPECT_TRUE(eventually([&] {
    return under_test.metrics().expose().find("\noncebox_waiting_claims{store=\"main\"} 2") !=
           std::string::npos;
  }));
  broken = true;
  under_test.call(post("/v1/messages", R"({"topic":"t","payload":""})"));
  EXPECT_EQ(first->wait().status, 503);
  EXPECT_EQ(second->wait().status, 503);
}

TEST(WaitingClaimFaults, WhatAClaimBuriedBeforeTheStoreFailedIsAnswered) {
  ::testing::Test::RecordProperty("requirement", "R-33");
  testing::FakeClock clock;
  FaultyStore store(clock, [](std::string_view call) {
    return call == "next_due" ? testing::Fault::before : testing::Fault::none;
  });
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  store.inbox().enqueue(Message{
      .key = {"s", "m"}, .topic = "t", .expires_at = clock.now() + std::chrono::seconds{1}});
  clock.advance(std::chrono::seconds{1});
  const Response buried = under_test.call(post("/v1/messages/claim", kWaiting));
  ASSERT_EQ(buried.status, 200) << buried.body;
  EXPECT_EQ(json_of(buried).at("reaped").at("buried"), 1) << buried.body;
  EXPECT_EQ(under_test.call(post("/v1/messages/claim", kWaiting)).status, 503);
}

TEST(WaitingClaimFaults, MessagesClaimedForAClientThatLeftMeanwhileAreGivenBack) {
  const SystemClock clock;
  std::shared_ptr<TestExchange> leaving;
  std::atomic<bool> has_left = false;
  // When the message is there, and not at a claim that looks for it now and then.
  FaultyStore store(clock, [&](std::string_view call) {
    if (call == "claim" && store.inbox().find(MessageKey{"s", "m"}) && !has_left.exchange(true)) {
      leaving->go_away();
    }
    return testing::Fault::none;
  });
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  leaving = under_test.begin(post("/v1/messages/claim", kWaiting));
  EXPECT_TRUE(eventually([&] {
    return under_test.metrics().expose().find("\noncebox_waiting_claims{store=\"main\"} 1") !=
           std::string::npos;
  }));
  under_test.call(
      post("/v1/messages", R"({"source":"s","messageId":"m","topic":"t","payload":""})"));
  EXPECT_TRUE(eventually([&] {
    const auto record = store.inbox().find(MessageKey{"s", "m"});
    return record->history.deliveries == 1 && !record->lease;
  }));
  EXPECT_EQ(store.inbox().find(MessageKey{"s", "m"})->history.attempt, 0);
  EXPECT_EQ(messages_in(leaving->wait()), 0U);
}

TEST(WaitingClaimFaults, AMessageClaimedWhileItsTopicIsPausedIsGivenBack) {
  const SystemClock clock;
  ApiUnderTest* api = nullptr;
  std::atomic<bool> armed = false;
  FaultyStore store(clock, [&](std::string_view call) {
    if (call == "claim" && armed.exchange(false)) {
      api->call(post("/v1/topics/pause", R"({"topic":"t"})"));
    }
    return testing::Fault::none;
  });
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  api = &under_test;
  under_test.call(
      post("/v1/messages", R"({"source":"s","messageId":"m","topic":"t","payload":""})"));
  armed = true;
  EXPECT_EQ(messages_in(under_test.call(post("/v1/messages/claim", "{}"))), 0U);
  EXPECT_FALSE(store.inbox().find(MessageKey{"s", "m"})->lease);
}

TEST(WaitingClaimFaults, TooManyCallsForAStuckStoreAreRefusedAtOnce) {
  const SystemClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  FaultyStore store(clock, [&](std::string_view call) {
    if (call == "find") {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return open; });
    }
    return testing::Fault::none;
  });
  ServerOptions options = quiet_options();
  options.call_threads = 2;
  options.max_queued_calls = 3;
  ApiUnderTest under_test(options, {{"main", store}}, clock);
  std::vector<std::shared_ptr<TestExchange>> calls;
  std::size_t refused = 0;
  for (int i = 0; i < 20; ++i) {
    auto exchange = under_test.begin(get("/v1/messages/s/m"));
    if (exchange->answered()) {
      ++refused;
      EXPECT_EQ(exchange->wait().status, 503);
      EXPECT_EQ(problem_code(exchange->wait()), "overloaded");
    } else {
      calls.push_back(std::move(exchange));
    }
  }
  EXPECT_GE(refused, 15U);
  {
    const std::lock_guard lock(mutex);
    open = true;
  }
  changed.notify_all();
  for (const auto& call : calls) EXPECT_EQ(call->wait().status, 404);
}

}  // namespace

}  // namespace oncebox::server
