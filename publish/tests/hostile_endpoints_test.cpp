// Receivers that do to us what no good one does, beside a good one.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "dispatcher_fixture.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/testing/scripted_server.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;
using testing::Reaction;

constexpr std::array kHostile{Reaction::Kind::hang,  Reaction::Kind::reset,
                              Reaction::Kind::drip,  Reaction::Kind::cut_off,
                              Reaction::Kind::flood, Reaction::Kind::hang_up};
constexpr std::size_t kHostileMessages = 20;

/// Hostile until it is told to behave; then it keeps what it accepts.
class HostileReceiver {
 public:
  explicit HostileReceiver(Reaction::Kind kind) : kind_(kind) {}

  [[nodiscard]] std::string url() const { return server_.url(); }
  void behave() { behaves_ = true; }
  [[nodiscard]] std::set<std::string> accepted() const { return accepted_.get(); }

 private:
  [[nodiscard]] Reaction react(const testing::ReceivedRequest& request) {
    if (!behaves_) {
      return {.kind = kind_, .status = 503, .body = "HTTP/1.1 200 OK\r\n", .pause = 50ms};
    }
    accepted_.change([&](auto& ids) { ids.insert(request.fields.at("webhook-id")); });
    return {};
  }

  const Reaction::Kind kind_;
  std::atomic<bool> behaves_ = false;
  Watched<std::set<std::string>> accepted_;
  testing::ScriptedServer server_{
      [this](const testing::ReceivedRequest& request) { return react(request); }};
};

class HostileEndpoints : public ::testing::Test {
 protected:
  HostileReceiver& add(const std::string& name, Reaction::Kind kind, Duration timeout) {
    auto& receiver = receivers_[name] = std::make_unique<HostileReceiver>(kind);
    save_endpoint(store_,
                  {.name = name,
                   .url = receiver->url(),
                   .secrets = {{"literal:whsec_Zmlyc3Qtc2VjcmV0"}},
                   .timeout = timeout,
                   .allow_private = true},
                  {.max_attempts = 1'000, .backoff = 10ms, .max_delay = 50ms});
    return *receiver;
  }
  [[nodiscard]] std::set<std::string> send_all() {
    std::set<std::string> sent;
    for (std::size_t i = 0; i < kHostileMessages; ++i) {
      const std::string id = std::to_string(i);
      store_.outbox().enqueue({.key = {"shop", id}, .topic = "t", .payload = "{}"});
      sent.insert("shop:" + id);
    }
    return sent;
  }

  const Clock& clock_ = SystemClock::shared();
  memory::MemoryStore store_;
  std::map<std::string, std::unique_ptr<HostileReceiver>> receivers_;
  const EndpointPublishers publishers_ = standard_publishers({}, clock_);
};

TEST_F(HostileEndpoints, HoldUpNoOtherAndGetEverythingOnceTheyBehave) {
  HostileReceiver& good = add("good", Reaction::Kind::answer, 10s);
  good.behave();
  for (const Reaction::Kind kind : kHostile) {
    add("hostile-" + std::to_string(static_cast<int>(kind)), kind, 200ms);
  }
  const std::set<std::string> sent = send_all();
  Publishing publishing(store_, publishers_, {}, {.clock = clock_});
  publishing.start();
  EXPECT_TRUE(eventually([&] { return good.accepted() == sent; }));
  for (auto& [name, receiver] : receivers_) receiver->behave();
  for (auto& [name, receiver] : receivers_) {
    EXPECT_TRUE(eventually([&] { return receiver->accepted() == sent; })) << name;
  }
  EXPECT_TRUE(publishing.stop().complete());
}

TEST_F(HostileEndpoints, ThatHangKeepNoWorkerHoweverManyThereAre) {
  HostileReceiver& good = add("good", Reaction::Kind::answer, 1h);
  good.behave();
  // They hang for longer than anybody waits here.
  constexpr std::size_t kHanging = 40;
  for (std::size_t i = 0; i < kHanging; ++i)
    add("hangs-" + std::to_string(i), Reaction::Kind::hang, 1h);
  const std::set<std::string> sent = send_all();
  Publishing publishing(store_, publishers_, {.deliveries = {.workers = 2}}, {.clock = clock_});
  publishing.start();
  EXPECT_TRUE(eventually([&] { return good.accepted() == sent; }));
  EXPECT_TRUE(eventually([&] {
    return publishing.stats().deliveries.running == kHanging * kUsualConcurrency;
  })) << publishing.stats().deliveries.running
      << " are under way";
  EXPECT_TRUE(publishing.stop({.finish_within = 0ms}).complete());
}

TEST_F(HostileEndpoints, DoNotKeepPublishingFromItsEnd) {
  add("hangs", Reaction::Kind::hang, 1h);
  (void)send_all();
  {
    // The client ends with it, and the requests with the client.
    Publishing publishing(store_, standard_publishers({}, clock_), {}, {.clock = clock_});
    publishing.start();
    ASSERT_TRUE(
        eventually([&] { return publishing.stats().deliveries.running == kUsualConcurrency; }));
  }
  EXPECT_EQ(store_.deliveries_operator().count({.states = {State::leased}}), 0U);
}

}  // namespace
}  // namespace oncebox::publish
