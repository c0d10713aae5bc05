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

constexpr std::array kHostile{Reaction::Kind::hang, Reaction::Kind::reset, Reaction::Kind::drip,
                              Reaction::Kind::cut_off, Reaction::Kind::hang_up};
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
    if (!behaves_) return {.kind = kind_, .body = "HTTP/1.1 200 OK\r\n", .pause = 50ms};
    accepted_.change([&](auto& ids) { ids.insert(request.fields.at("webhook-id")); });
    return {};
  }

  const Reaction::Kind kind_;
  std::atomic<bool> behaves_ = false;
  Watched<std::set<std::string>> accepted_;
  testing::ScriptedServer server_{
      [this](const testing::ReceivedRequest& request) { return react(request); }};
};

TEST(HostileEndpoints, HoldUpNoOtherAndGetEverythingOnceTheyBehave) {
  const Clock& clock = SystemClock::shared();
  memory::MemoryStore store;
  std::map<std::string, std::unique_ptr<HostileReceiver>> receivers;
  const auto add = [&](const std::string& name, Reaction::Kind kind) {
    auto& receiver = receivers[name] = std::make_unique<HostileReceiver>(kind);
    save_endpoint(store,
                  {.name = name,
                   .url = receiver->url(),
                   .secrets = {{"literal:whsec_Zmlyc3Qtc2VjcmV0"}},
                   .timeout = 200ms,
                   .allow_private = true},
                  {.max_attempts = 1'000, .backoff = 10ms, .max_delay = 50ms});
    return receiver.get();
  };
  HostileReceiver* const good = add("good", Reaction::Kind::answer);
  good->behave();
  for (const Reaction::Kind kind : kHostile) {
    add("hostile-" + std::to_string(static_cast<int>(kind)), kind);
  }
  std::set<std::string> sent;
  for (std::size_t i = 0; i < kHostileMessages; ++i) {
    const std::string id = std::to_string(i);
    store.outbox().enqueue({.key = {"shop", id}, .topic = "t", .payload = "{}"});
    sent.insert("shop:" + id);
  }
  Publishing publishing(store, standard_publishers({}, clock),
                        {.deliveries = {.workers = kUsualConcurrency * (kHostile.size() + 1)}},
                        {.clock = clock});
  publishing.start();
  EXPECT_TRUE(eventually([&] { return good->accepted() == sent; }));
  for (auto& [name, receiver] : receivers) receiver->behave();
  for (auto& [name, receiver] : receivers) {
    EXPECT_TRUE(eventually([&] { return receiver->accepted() == sent; })) << name;
  }
  EXPECT_TRUE(publishing.stop().complete());
}

}  // namespace
}  // namespace oncebox::publish
