// What clients can make the server hold, and who goes when places or memory are short.

#include <array>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <thread>

#include "http/answers.hpp"
#include "http/memory_budget.hpp"
#include "http_fixture.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "watched.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

/// Asks a few times on a server with one loop: then the loop has seen what other clients had sent
/// before, and written what their sockets take.
void let_loop_catch_up(RawClient& client) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

/// A server whose clients may hold 16 MiB, and a token for those that are no strangers.
class HttpMemory : public HttpTest {
 protected:
  HttpMemory() {
    options.limits.memory_bytes = 32 * kMebibyte;
    options.limits.max_body_bytes = 2 * kMebibyte;
    options.limits.write_timeout = std::chrono::hours{1};
    options.limits.request_timeout = std::chrono::hours{1};
    options.auth.token_file = folder.file("tokens");
    std::ofstream(options.auth.token_file) << "shop produce,read sesame\n"
                                           << "farm produce,read barley\n"
                                           << "mill produce,read flour\n";
    std::filesystem::permissions(options.auth.token_file, std::filesystem::perms::owner_read);
    router.add({.method = Method::get,
                .pattern = "/v1/large/{bytes}",
                .scope = Scope::read,
                .handler = [this](const ExchangePtr& exchange) { send_large(*exchange); }});
    router.add({.method = Method::post,
                .pattern = "/v1/changed/{bytes}",
                .scope = Scope::produce,
                .handler = [this](const ExchangePtr& exchange) { send_large(*exchange); }});
    router.add({.method = Method::post,
                .pattern = "/v1/held",
                .scope = Scope::produce,
                .handler = [this](const ExchangePtr& exchange) { held.add(exchange); }});
  }

  void send_large(Exchange& exchange) {
    Response response =
        json_response(std::string(std::stoul(exchange.request().arguments.at(0)), 'x'));
    if (has_undelivered) response.undelivered = [this] { undelivered.add(1); };
    exchange.send(std::move(response));
  }

  static std::string with_token(std::string_view method, std::string_view path,
                                std::string_view body = {}, std::size_t token = 0) {
    return request_text(method, path, body, kTokens.at(token));
  }
  /// The head of a request, and a part of its body.
  static std::string begun(std::string_view path, std::size_t length, std::size_t sent,
                           std::string_view fields = {}) {
    std::string text = "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
    text += fields;
    text += "Content-Length: " + std::to_string(length) + "\r\n\r\n";
    return text + std::string(sent, 'x');
  }
  [[nodiscard]] const MemoryBudget& memory() const { return server_->memory(); }
  void wait_for_held(MemoryPart part, std::size_t at_least) {
    EXPECT_TRUE(eventually([&] { return memory().held(part) >= at_least; })) << memory().held(part);
  }
  /// Clients that ask for a large answer and do not read it.
  std::vector<RawClient> ask_and_do_not_read(std::size_t clients, std::size_t bytes,
                                             std::size_t token = 0) {
    std::vector<RawClient> all;
    for (std::size_t i = 0; i < clients; ++i) {
      all.push_back(connect());
      all.back().set_receive_buffer(4'096);
      all.back().send(with_token("GET", "/v1/large/" + std::to_string(bytes), {}, token));
      (void)all.back().peek(1);
    }
    return all;
  }

  static constexpr std::string_view kToken = "Authorization: Bearer sesame\r\n";
  /// Each holder of a token has a share of its own.
  static constexpr std::array<std::string_view, 3> kTokens{
      kToken, "Authorization: Bearer barley\r\n", "Authorization: Bearer flour\r\n"};
  const testing::TemporaryFolder folder;
  bool has_undelivered = false;
  Arrivals<int> undelivered;
};

TEST_F(HttpMemory, UnfinishedBodiesOfStrangersLeaveRoomForACallerWithAToken) {
  RecordProperty("requirement", "R-38");
  start();
  std::vector<RawClient> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(connect());
    strangers.back().send(begun("/echo", 2'000'000, 1'000'000));
  }
  EXPECT_TRUE(eventually([&] { return memory().refusals(MemoryPart::strangers) > 0; }));
  EXPECT_LE(memory().held(MemoryPart::strangers), 4 * kMebibyte);
  EXPECT_EQ(connect().ask(with_token("POST", "/v1/produce", std::string(1'000'000, 'x'))).status,
            200);
}

TEST_F(HttpMemory, ARefusalNamesTheLimitAndSaysWhenToComeBack) {
  RecordProperty("requirement", "R-38");
  start();
  std::vector<RawClient> callers;
  for (std::size_t i = 0; i < 3; ++i) {
    callers.push_back(connect());
    callers.back().send(with_token("POST", "/v1/held", std::string(1'900'000, 'x'), i));
    held.wait(i);
  }
  RawClient client = connect();
  client.send(begun("/v1/produce", 2'000'000, 1'900'000, kToken));
  const RawResponse refused = client.receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(code_of(refused), "overloaded");
  EXPECT_THAT(refused.body, HasSubstr("limits.memory"));
  EXPECT_EQ(refused.field("Retry-After"), "1");
  EXPECT_EQ(refused.field("Connection"), "close");
  EXPECT_EQ(connect().ask(with_token("POST", "/v1/produce", "small")).status, 200)
      << "a small one is part of its connection";

  for (std::size_t i = 0; i < 3; ++i) held.wait(i)->send(json_response("done"));
  for (RawClient& caller : callers) EXPECT_EQ(caller.receive().body, "done");
  held.clear();
  EXPECT_TRUE(eventually([&] { return memory().held(MemoryPart::callers) == 0; }));
  EXPECT_EQ(
      connect().ask(with_token("POST", "/v1/produce", std::string(2 * kMebibyte, 'x'))).status,
      200);
}

TEST_F(HttpMemory, WhatOneTokenMakesItHoldCutsOffNoneOfAnother) {
  RecordProperty("requirement", "R-38");
  start();
  std::vector<RawClient> greedy;
  for (int i = 0; i < 40; ++i) {
    greedy.push_back(connect());
    greedy.back().send(begun("/v1/produce", 2'000'000, 1'000'000, kToken));
  }
  EXPECT_TRUE(eventually([&] { return memory().refusals(MemoryPart::callers) > 0; }));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(
        connect().ask(with_token("POST", "/v1/produce", std::string(1'000'000, 'x'), 1)).status,
        200)
        << "from the same address";
  }
}

TEST_F(HttpMemory, ABodyIsHeldAsLongAsItsHandlerHasItAlsoWithoutItsClient) {
  RecordProperty("requirement", "R-38");
  start();
  {
    RawClient client = connect();
    client.send(with_token("POST", "/v1/held", std::string(1'000'000, 'x')));
    held.wait();
    client.reset();
  }
  observer.wait_for_connections(0);
  EXPECT_GE(memory().held(), 2'000'000U);
  held.clear();
  EXPECT_TRUE(eventually([&] { return memory().held() == 0; }));
}

TEST_F(HttpMemory, WhatAClientThatLeftHadSentIsHeldNoMore) {
  RecordProperty("requirement", "R-38");
  start();
  {
    RawClient client = connect();
    client.send(begun("/v1/produce", 1'000'000, 900'000, kToken));
    wait_for_held(MemoryPart::callers, 1'800'000);
  }
  observer.wait_for_connections(0);
  EXPECT_TRUE(eventually([&] { return memory().held() == 0; }));
}

TEST_F(HttpMemory, AnswersThatNobodyReadsAreCountedAndRefusedBeyondTheBudget) {
  RecordProperty("requirement", "R-38");
  has_undelivered = true;
  start();
  const auto clients = ask_and_do_not_read(20, 5'000'000);
  EXPECT_LE(memory().held(), 16 * kMebibyte);
  EXPECT_GT(memory().refusals(MemoryPart::callers), 0U);
  EXPECT_GT(undelivered.count(), 0U) << "what a refused answer would have given is given back";
  EXPECT_EQ(connect().ask(with_token("POST", "/v1/produce", "small")).status, 200);
}

TEST_F(HttpMemory, TheAnswerToACallThatChangedSomethingIsNotRefused) {
  start();
  const auto clients = ask_and_do_not_read(10, 5'000'000);
  ASSERT_GT(memory().refusals(MemoryPart::callers), 0U);
  const RawResponse changed = connect().ask(with_token("POST", "/v1/changed/5000000"));
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(changed.body.size(), 5'000'000U);
}

TEST_F(HttpMemory, WhenMemoryIsShortTheSlowestReadersGoFirst) {
  options.limits.idle_timeout = std::chrono::hours{1};
  options.io_threads = 1;
  start();
  RawClient witness = connect();
  auto slowest = ask_and_do_not_read(1, 4'000'000);
  let_loop_catch_up(witness);
  clock.advance(std::chrono::seconds{10});
  const auto slow = ask_and_do_not_read(1, 4'000'000, 1);
  let_loop_catch_up(witness);
  EXPECT_GE(memory().held(MemoryPart::callers), 8'000'000U);
  EXPECT_EQ(observer.ended.count(), 0U) << "enough is left";
  clock.advance(std::chrono::milliseconds{500});
  const auto fresh = ask_and_do_not_read(1, 4'000'000, 2);
  EXPECT_EQ(observer.ended.wait(), "memory");
  observer.wait_for_connections(3);
  EXPECT_TRUE(eventually([&] { return !slowest.front().send("x"); })) << "it is closed";
  let_loop_catch_up(witness);
  EXPECT_EQ(observer.ended.count(), 1U) << "that was enough";
}

TEST_F(HttpMemory, WhenMemoryIsShortASenderThatDoesNotGoOnIsToldToComeBack) {
  options.limits.idle_timeout = std::chrono::hours{1};
  start();
  RawClient sender = connect();
  sender.send(begun("/v1/produce", 2'000'000, 1'900'000, kToken));
  wait_for_held(MemoryPart::callers, 3'800'000);
  std::vector<RawClient> callers;
  for (std::size_t i = 0; i < 2; ++i) {
    callers.push_back(connect());
    callers.back().send(with_token("POST", "/v1/held", std::string(1'900'000, 'x'), i + 1));
    held.wait(i);
  }
  clock.advance(std::chrono::seconds{2});
  const RawResponse refused = sender.receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("limits.memory"));
  EXPECT_EQ(observer.ended.wait(), "memory");
  for (std::size_t i = 0; i < 2; ++i) held.wait(i)->send(json_response("done"));
  for (RawClient& caller : callers) EXPECT_EQ(caller.receive().body, "done") << "they wait for us";
}

TEST_F(HttpMemory, PipelinedAnswersThatNobodyReadsAreCounted) {
  RecordProperty("requirement", "R-38");
  start();
  RawClient client = connect();
  client.set_receive_buffer(4'096);
  std::string many;
  for (int i = 0; i < 200; ++i) many += with_token("GET", "/v1/large/10000");
  std::jthread sender([&] {
    for (int i = 0; i < 30 && client.send(many); ++i) continue;
  });
  wait_for_held(MemoryPart::connections, 16'384 + 10'000);
  EXPECT_LT(memory().held(), 200'000U);
  server_.reset();
}

TEST_F(HttpMemory, AConnectionCountsUntilItIsClosed) {
  RecordProperty("requirement", "R-38");
  start();
  {
    RawClient client = connect();
    EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
    const std::size_t idle = memory().held(MemoryPart::connections);
    EXPECT_GT(idle, 0U);
    EXPECT_EQ(client.ask(request_text("POST", "/echo", std::string(300'000, 'x'))).status, 200);
    EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
    EXPECT_TRUE(eventually([&] { return memory().held() == idle; }))
        << "the buffers of the body are gone";
  }
  observer.wait_for_connections(0);
  EXPECT_TRUE(eventually([&] { return memory().held() == 0; }));
}

TEST_F(HttpMemory, ConnectionsBeyondTheirHalfOfTheBudgetAreToldSo) {
  RecordProperty("requirement", "R-38");
  options.limits.memory_bytes = 16 * 8 * std::size_t{16} << 10;
  start();
  const std::size_t room = memory().limit(MemoryPart::connections) / (16 << 10);
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < room; ++i) {
    clients.push_back(connect());
    clients.back().send(get_text("/held"));
    held.wait(i);
  }
  RawClient refused = connect();
  const RawResponse response = refused.ask(get_text("/hello"));
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("limits.memory"));
}

TEST_F(HttpMemory, WhenCallersHoldAllTheyMayANewConnectionIsServed) {
  RecordProperty("requirement", "R-38");
  start();
  std::vector<RawClient> callers;
  while (memory().refusals(MemoryPart::callers) == 0) {
    const std::size_t before = memory().held(MemoryPart::callers);
    callers.push_back(connect());
    callers.back().send(begun("/v1/produce", 1'000'000, 200'000, kToken));
    ASSERT_TRUE(eventually([&] {
      return memory().held(MemoryPart::callers) >= before + 400'000 ||
             memory().refusals(MemoryPart::callers) > 0;
    }));
  }
  for (std::size_t i = 0; i < 100; ++i) {
    callers.push_back(connect());
    ASSERT_EQ(callers.back().ask(get_text("/hello")).status, 200) << i;
  }
}

TEST_F(HttpMemory, NoIdleConnectionGoesWhenItsMemoryWouldNotDo) {
  options.limits.idle_timeout = std::chrono::hours{1};
  options.limits.memory_bytes = 128 * std::size_t{16} << 10;  // 16 connections have theirs
  options.io_threads = 1;
  start();
  RawClient idle = connect();
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200);
  std::vector<RawClient> busy;
  for (std::size_t i = 0; i < 20; ++i) {
    busy.push_back(connect());
    busy.back().send(with_token("POST", "/v1/held"));
    held.wait(i);
  }
  RawClient slow = connect();
  slow.set_receive_buffer(4'096);
  EXPECT_EQ(slow.ask(get_text("/hello")).status, 200);
  clock.advance(std::chrono::seconds{2});
  slow.send(with_token("POST", "/v1/changed/40000000"));
  (void)slow.peek(1);
  wait_for_held(MemoryPart::callers, memory().limit());
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 503) << "7 of the others would have to go";
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200);
  EXPECT_EQ(observer.ended.count(), 0U);
}

TEST_F(HttpMemory, WhereMemoryLimitsThePlacesAGreedyAddressGivesThemToOthers) {
  options.limits.memory_bytes = 16 * 8 * std::size_t{16} << 10;
  start();
  const std::size_t room = memory().limit(MemoryPart::connections) / (16 << 10);
  std::vector<RawClient> greedy;
  for (std::size_t i = 0; i < room; ++i) {
    greedy.push_back(connect());
    greedy.back().send("GET /hello HTTP/1.1\r\nX-Slow: ");
  }
  observer.wait_for_connections(static_cast<std::ptrdiff_t>(room));
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 503) << "none has waited for long";
  EXPECT_EQ(RawClient(server_->port(), "127.0.0.2").ask(get_text("/hello")).status, 200);
}

using HttpPlaces = HttpTest;

TEST_F(HttpPlaces, TooManyConnectionsWithRequestsAreToldSo) {
  options.limits.max_connections = 3;
  start();
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < 3; ++i) {
    clients.push_back(connect());
    clients.back().send(get_text("/held"));
    held.wait(i);
  }
  clock.advance(std::chrono::seconds{5});
  {
    RawClient refused = connect();
    refused.send(get_text("/hello"));
    const RawResponse response = refused.receive();
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(code_of(response), "overloaded");
    EXPECT_THAT(response.body, HasSubstr("limits.max_connections"));
    EXPECT_EQ(response.field("Retry-After"), "1");
    EXPECT_EQ(refused.receive_rest(), "");
  }
  observer.refused.wait();
  clients.pop_back();
  held.wait(2)->send(json_response("too late"));
  observer.wait_for_connections(2);
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 200);
}

TEST_F(HttpPlaces, UnfinishedHeadsGiveWayBeforeIdleConnections) {
  options.limits.max_connections = 4;
  options.io_threads = 1;
  start();
  RawClient idle = connect();
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200);
  std::vector<RawClient> slow;
  for (int i = 0; i < 3; ++i) {
    slow.push_back(connect());
    slow.back().send("GET /hello HTTP/1.1\r\nHost: loc");
  }
  let_loop_catch_up(idle);
  clock.advance(std::chrono::seconds{2});
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 200);
  EXPECT_EQ(observer.ended.wait(), "places");
  EXPECT_EQ(slow.front().receive_rest(), "") << "the oldest one had to go";
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200);
  slow.back().send("alhost\r\n\r\n");
  EXPECT_EQ(slow.back().receive().status, 200) << "one was enough";
}

TEST_F(HttpPlaces, ManySlowHeadsDoNotShutOutAnHonestClient) {
  options.limits.max_connections = 61;
  options.io_threads = 1;
  start();
  RawClient witness = connect();
  std::vector<RawClient> slow;
  for (int i = 0; i < 60; ++i) {
    slow.push_back(connect());
    slow.back().send("GET /hello HTTP/1.1\r\nX-Slow: ");
  }
  let_loop_catch_up(witness);
  clock.advance(std::chrono::seconds{2});
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(connect().ask(get_text("/hello", "Connection: close\r\n")).status, 200);
  }
}

TEST_F(HttpPlaces, TheLongestIdleConnectionGivesWay) {
  options.limits.max_connections = 2;
  start();
  RawClient first = connect();
  EXPECT_EQ(first.ask(get_text("/hello")).status, 200);
  RawClient second = connect();
  EXPECT_EQ(second.ask(get_text("/hello")).status, 200);
  clock.advance(std::chrono::milliseconds{500});
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 503) << "neither has rested for long";
  clock.advance(std::chrono::seconds{2});
  RawClient third = connect();
  EXPECT_EQ(third.ask(get_text("/hello")).status, 200) << "whichever loop has the idle ones";
  EXPECT_EQ(observer.ended.wait(), "places");
}

TEST_F(HttpPlaces, AnUnfinishedBodyGivesWayLast) {
  options.limits.max_connections = 3;
  options.io_threads = 1;
  start();
  RawClient idle = connect();
  RawClient body = connect();
  body.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab");
  RawClient waiting = connect();
  waiting.send(get_text("/held"));
  held.wait();
  let_loop_catch_up(idle);
  clock.advance(std::chrono::seconds{2});
  RawClient first = connect();
  EXPECT_EQ(first.ask(get_text("/hello")).status, 200);
  EXPECT_EQ(idle.receive_rest(), "") << "the idle one goes before it";
  RawClient second = connect();
  EXPECT_EQ(second.ask(get_text("/hello")).status, 200);
  EXPECT_EQ(body.receive_rest(), "");
  held.wait()->send(json_response("yes"));
  EXPECT_EQ(waiting.receive().body, "yes");
}

TEST_F(HttpPlaces, ReadersThatDoNotReadGiveWay) {
  RecordProperty("requirement", "R-38");
  options.limits.max_connections = 8;
  options.limits.idle_timeout = std::chrono::hours{1};
  options.limits.write_timeout = std::chrono::hours{1};
  options.io_threads = 1;
  start();
  RawClient idle(server_->port(), "127.0.0.2");
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200);
  std::vector<RawClient> deaf;
  for (int i = 0; i < 7; ++i) {
    deaf.push_back(connect());
    deaf.back().set_receive_buffer(4'096);
    deaf.back().send(get_text("/large/4000000"));
    (void)deaf.back().peek(1);
  }
  let_loop_catch_up(idle);
  EXPECT_EQ(RawClient(server_->port(), "127.0.0.3").ask(get_text("/hello")).status, 503)
      << "they may still go on";
  clock.advance(std::chrono::seconds{2});
  for (int i = 0; i < 20; ++i) {
    RawClient newcomer(server_->port(), "127.0.0." + std::to_string(2 + i % 2));
    EXPECT_EQ(newcomer.ask(get_text("/hello", "Connection: close\r\n")).status, 200) << i;
  }
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200) << "it has one place, and they have most";
}

TEST_F(HttpPlaces, AnAddressThatHasMostPlacesGivesThemToOthers) {
  options.limits.max_connections = 20;
  start();
  std::vector<RawClient> greedy;
  for (int i = 0; i < 20; ++i) {
    greedy.push_back(connect());
    greedy.back().send("GET /hello HTTP/1.1\r\nX-Slow: ");
  }
  observer.wait_for_connections(20);
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 503) << "none has waited for long";
  EXPECT_EQ(RawClient(server_->port(), "127.0.0.2").ask(get_text("/hello")).status, 200)
      << "who has more than a quarter has to give at once";
}

TEST_F(HttpPlaces, AnAddressThatHasFewPlacesKeepsThemWhenItWantsOneMore) {
  RecordProperty("requirement", "R-38");
  options.limits.max_connections = 8;
  options.io_threads = 1;
  start();
  RawClient idle(server_->port(), "127.0.0.2");
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200);
  std::vector<RawClient> greedy;
  for (int i = 0; i < 7; ++i) {
    greedy.push_back(connect());
    EXPECT_EQ(greedy.back().ask(get_text("/hello")).status, 200);
  }
  clock.advance(std::chrono::seconds{10});
  EXPECT_EQ(RawClient(server_->port(), "127.0.0.2").ask(get_text("/hello")).status, 200);
  EXPECT_EQ(greedy.front().receive_rest(), "") << "it is idle for a shorter time, but has others";
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpPlaces, AnAddressDoesNotLoseItsPlaceToOneThatHasMore) {
  options.limits.max_connections = 8;
  options.io_threads = 1;
  start();
  RawClient lone(server_->port(), "127.0.0.2");
  EXPECT_EQ(lone.ask(get_text("/hello")).status, 200);
  std::vector<RawClient> greedy;
  for (std::size_t i = 0; i < 7; ++i) {
    greedy.push_back(connect());
    greedy.back().send(get_text("/held"));
    held.wait(i);
  }
  clock.advance(std::chrono::seconds{10});
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 503);
  EXPECT_EQ(lone.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpPlaces, ALoneAddressMayHaveThemAll) {
  options.limits.max_connections = 20;
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(connect());
    EXPECT_EQ(clients.back().ask(get_text("/hello")).status, 200);
  }
  for (RawClient& client : clients) EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

}  // namespace
}  // namespace oncebox::server
