// How a store over HTTP hears of work.
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "event_parser.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"

namespace oncebox::http {
namespace {

using namespace std::chrono_literals;
using testing::dead_url;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;

using Events = std::vector<std::pair<std::string, std::string>>;

Events parse(const std::vector<std::string>& pieces) {
  EventParser parser;
  Events events;
  for (const std::string& piece : pieces) {
    parser.feed(piece, [&](std::string_view name, std::string_view data) {
      events.emplace_back(name, data);
    });
  }
  return events;
}

TEST(EventParser, AnEventEndsWithAnEmptyLine) {
  EXPECT_EQ(parse({"event: work\ndata: {\"a\":1}\n\nevent:x\ndata:y\n\n"}),
            (Events{{"work", "{\"a\":1}"}, {"x", "y"}}));
  EXPECT_EQ(parse({"event: work\r\ndata: d\r\n\r\n"}), (Events{{"work", "d"}}));
  EXPECT_EQ(parse({"event: work\ndata: d\n"}), Events{});
}

TEST(EventParser, PiecesMayEndAnywhere) {
  const std::string text = "retry: 2000\n\n:\n\nevent: work\ndata: d\n\nevent: stats\ndata: e\n\n";
  const Events expected = {{"work", "d"}, {"stats", "e"}};
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(parse({text.substr(0, cut), text.substr(cut)}), expected) << cut;
  }
  std::vector<std::string> bytes;
  for (const char byte : text) bytes.emplace_back(1, byte);
  EXPECT_EQ(parse(bytes), expected);
}

TEST(EventParser, ALineThatIsTooLongIsDropped) {
  const std::string large(EventParser::kMaxLineBytes, 'x');
  EXPECT_EQ(parse({"event: stats\ndata: ", large, large, "\n\nevent: work\ndata: d\n\n"}),
            (Events{{"stats", ""}, {"work", "d"}}));
}

class Listener final : public WorkListener {
 public:
  void on_work() noexcept override {
    const std::lock_guard lock(mutex_);
    ++told_;
    changed_.notify_all();
  }

  /// While it waits, it calls `meanwhile` again and again.
  [[nodiscard]] bool was_told(int times, const std::function<void()>& meanwhile = [] {}) {
    constexpr int kPatience = 6'000;  // times 10 ms; only a failing test waits as long
    for (int i = 0; i < kPatience; ++i) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, 10ms, [&] { return told_ >= times; })) return true;
      lock.unlock();
      meanwhile();
    }
    return false;
  }
  [[nodiscard]] int told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int told_ = 0;
};

constexpr std::string_view kOneStore = R"({"stores":[{"name":"main","default":true}]})";

std::string work(std::string_view store, std::string_view queue) {
  return "event: work\ndata: {\"store\":\"" + std::string(store) + "\",\"queue\":\"" +
         std::string(queue) + "\"}\n\n";
}

ScriptedServer::Script streaming(const std::string& events) {
  return [events](const ReceivedRequest& request) {
    if (request.target == "/v1/stores") return Reaction{.body = std::string(kOneStore)};
    return Reaction{.kind = Reaction::Kind::stream, .body = events};
  };
}

TEST(EventStream, ListenersAreToldOfTheirQueueAndWhenItConnects) {
  ScriptedServer server(streaming(":\n\n" + work("other", "inbox") + work("main", "outbox") +
                                  work("main", "inbox") + work("main", "outbox")));
  HttpStore store({.url = server.url(), .token = "t"});
  const auto inbox = std::make_shared<Listener>();
  const auto outbox = std::make_shared<Listener>();
  store.inbox().listen(inbox);
  store.outbox().listen(outbox);
  ASSERT_TRUE(server.wait_for_requests(2));
  EXPECT_TRUE(inbox->was_told(1));
  // The outbox may have begun to listen after the connect was told.
  EXPECT_TRUE(outbox->was_told(1));
  EXPECT_LE(inbox->told(), 2) << "work of another store is not ours";
  EXPECT_EQ(server.requests().at(1).target, "/v1/events");
  EXPECT_EQ(server.requests().at(1).fields.at("authorization"), "Bearer t");
}

TEST(EventStream, ALostConnectionIsMadeAgainAndListenersAreToldThatTheyMayHaveMissedSomething) {
  ScriptedServer server(streaming(":\n\n"));
  testing::ManualClock clock;
  HttpStore store({.url = server.url()}, clock);
  const auto listener = std::make_shared<Listener>();
  store.inbox().listen(listener);
  ASSERT_TRUE(listener->was_told(1));
  server.cut_all();
  EXPECT_TRUE(listener->was_told(2, [&] { clock.advance(100ms); })) << "after a pause";
}

TEST(EventStream, ATokenThatMayNotListenOnlyMeansThatNobodyIsTold) {
  ScriptedServer server([](const ReceivedRequest&) {
    return Reaction{.status = 403, .body = R"({"code":"forbidden"})"};
  });
  const auto listener = std::make_shared<Listener>();
  {
    HttpStore store({.url = server.url(), .store = "main"});
    store.inbox().listen(listener);
    ASSERT_TRUE(server.wait_for_requests(2)) << "it is tried again";
  }
  EXPECT_EQ(listener->told(), 0);
}

TEST(EventStream, AStoreEndsAtOnceWhileItListensOrTriesTo) {
  ScriptedServer silent(
      [](const ReceivedRequest&) { return Reaction{.kind = Reaction::Kind::hang}; });
  {
    HttpStore store({.url = silent.url(), .store = "main"});
    store.inbox().listen(std::make_shared<Listener>());
    ASSERT_TRUE(silent.wait_for_requests(1));
  }
  HttpStore nobody({.url = dead_url()});
  nobody.inbox().listen(std::make_shared<Listener>());
}

}  // namespace
}  // namespace oncebox::http
