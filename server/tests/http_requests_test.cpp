#include <condition_variable>
#include <mutex>
#include <thread>

#include "http/answers.hpp"
#include "http_fixture.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using HttpRequests = HttpTest;

TEST_F(HttpRequests, AConnectionIsKeptForTheNextOne) {
  start();
  RawClient client = connect();
  for (int i = 0; i < 3; ++i) {
    const RawResponse response =
        client.ask(request_text("POST", "/echo", "text " + std::to_string(i)));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "text " + std::to_string(i));
    EXPECT_EQ(response.field("Content-Type"), "application/json");
    EXPECT_EQ(response.field("Connection"), "");
  }
  EXPECT_EQ(observer.requests.wait(2).route, "/echo");
}

TEST_F(HttpRequests, APipelineIsAnsweredInOrderWhoeverAnswers) {
  start();
  RawClient client = connect();
  constexpr int kRequests = 100;
  std::string all;
  for (int i = 0; i < kRequests; ++i) {
    const std::string number = std::to_string(i);
    all += request_text("POST", i % 3 == 0 ? "/later" : "/echo", number);
  }
  std::jthread sender([&] { client.send(all); });
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(client.receive().body, std::to_string(i));
}

TEST_F(HttpRequests, APipelineIsAnsweredAlsoWhenItsSenderSendsNoMore) {
  start();
  RawClient client = connect();
  client.send(request_text("POST", "/later", "a") + request_text("POST", "/later", "b") +
              request_text("POST", "/echo", "c"));
  client.half_close();
  EXPECT_EQ(client.receive().body, "a");
  EXPECT_EQ(client.receive().body, "b");
  EXPECT_EQ(client.receive().body, "c");
  EXPECT_FALSE(client.try_receive());
}

TEST_F(HttpRequests, BytesMayComeOneByOne) {
  start();
  RawClient client = connect();
  for (const char byte : request_text("POST", "/echo", "hello")) client.send({&byte, 1});
  EXPECT_EQ(client.receive().body, "hello");
}

TEST_F(HttpRequests, CloseIsHonoured) {
  start();
  RawClient client = connect();
  const RawResponse response = client.ask(get_text("/hello", "Connection: close\r\n"));
  EXPECT_EQ(response.field("Connection"), "close");
  EXPECT_EQ(client.receive_rest(), "");
}

TEST_F(HttpRequests, Http10IsAnsweredAndClosed) {
  start();
  RawClient client = connect();
  const RawResponse response = client.ask("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.field("Connection"), "close");
  EXPECT_EQ(client.receive_rest(), "");
}

TEST_F(HttpRequests, Http10IsKeptWhenItAsksForIt) {
  start();
  RawClient client = connect();
  for (int i = 0; i < 2; ++i) {
    const auto response = client.ask("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(response.field("Connection"), "keep-alive");
  }
}

TEST_F(HttpRequests, HeadGetsTheHeadOfGet) {
  start();
  RawClient client = connect();
  client.send(request_text("HEAD", "/hello"));
  const RawResponse response = client.receive(true);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.field("Content-Length"), "11");
  EXPECT_EQ(client.ask(get_text("/hello")).body, R"({"ok":true})");
}

TEST_F(HttpRequests, HeadOfAStreamEnds) {
  start();
  RawClient client = connect();
  client.send(request_text("HEAD", "/events"));
  EXPECT_EQ(client.receive(true).status, 200);
  EXPECT_FALSE(streams.wait()->write("x"));
  EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpRequests, ChunksMakeABody) {
  start();
  RawClient client = connect();
  const auto response = client.ask(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
  EXPECT_EQ(response.body, "abcdefg");
  EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpRequests, TheClientIsToldToGoOn) {
  start();
  RawClient client = connect();
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 5\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  EXPECT_EQ(client.ask("hello").body, "hello");
}

TEST_F(HttpRequests, WhoExpectsToGoOnHearsARefusalInstead) {
  start();
  RawClient client = connect();
  const auto response = client.ask(
      "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 5\r\n\r\n");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.field("Connection"), "close");
}

TEST_F(HttpRequests, NothingElseCanBeExpected) {
  start();
  RawClient client = connect();
  EXPECT_EQ(client.ask(get_text("/hello", "Expect: a miracle\r\n")).status, 417);
}

TEST_F(HttpRequests, LargeBodiesAndAnswersComeWhole) {
  start();
  RawClient client = connect();
  const std::string body(options.limits.max_body_bytes, 'b');
  std::jthread sender([&] { client.send(request_text("POST", "/echo", body)); });
  const RawResponse response = client.receive();
  EXPECT_EQ(response.body.size(), body.size());
  EXPECT_TRUE(response.body == body);
}

TEST_F(HttpRequests, ARefusedBodyOfModestSizeLeavesTheConnection) {
  start();
  RawClient client = connect();
  EXPECT_EQ(client.ask(request_text("POST", "/nowhere", std::string(60'000, 'x'))).status, 404);
  EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpRequests, WhatAHandlerThrowsIsAProblem) {
  start();
  RawClient client = connect();
  RawResponse response = client.ask(get_text("/throws/error", "X-Request-Id: r-1\r\n"));
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(response.field("Content-Type"), "application/problem+json");
  EXPECT_EQ(code_of(response), "conflict");
  EXPECT_THAT(response.body, HasSubstr("\"requestId\":\"r-1\""));

  response = client.ask(get_text("/throws/full"));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.field("Retry-After"), "1");

  response = client.ask(get_text("/throws/other"));
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, Not(HasSubstr("secret")));
  EXPECT_EQ(client.ask(get_text("/throws/number")).status, 500);
}

TEST_F(HttpRequests, WhatNobodyAnswersIsA500) {
  start();
  RawClient client = connect();
  EXPECT_EQ(client.ask(get_text("/dropped")).status, 500);
  client.send(get_text("/held"));
  held.wait();
  held.clear();
  EXPECT_EQ(client.receive().status, 500);
  EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpRequests, TheFirstAnswerCounts) {
  start();
  RawClient client = connect();
  client.send(get_text("/held"));
  const ExchangePtr exchange = held.wait();
  exchange->send(json_response("first"));
  exchange->send(json_response("second"));
  EXPECT_FALSE(exchange->send_stream({})->write("third"));
  EXPECT_EQ(client.receive().body, "first");
  EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpRequests, PathAndQueryAreDecoded) {
  start();
  RawClient client = connect();
  EXPECT_EQ(client.ask(get_text("/request/a%2Fb/c%20d/e?x=1%202&y=%C3%BC")).body,
            "GET /request/a%2Fb/c%20d/e {a/b} {c d/e} x=1 2 y=\xC3\xBC");
  EXPECT_EQ(client.ask(get_text("http://localhost/request/a/b")).body, "GET /request/a/b {a} {b}");
}

TEST_F(HttpRequests, RequestIdsAreKeptOrMade) {
  start();
  RawClient client = connect();
  EXPECT_EQ(client.ask(get_text("/hello", "X-Request-Id: abc-123\r\n")).field("X-Request-Id"),
            "abc-123");
  const std::string fresh = client.ask(get_text("/hello")).field("X-Request-Id");
  EXPECT_EQ(fresh.size(), 36U);
  EXPECT_EQ(fresh[14], '7');
  EXPECT_NE(client.ask(get_text("/hello")).field("X-Request-Id"), fresh);
  for (const std::string& bad :
       {std::string("has space"), std::string(129, 'x'), std::string("\xC3\xBC")}) {
    EXPECT_EQ(client.ask(get_text("/hello", "X-Request-Id: " + bad + "\r\n"))
                  .field("X-Request-Id")
                  .size(),
              36U);
  }
}

TEST_F(HttpRequests, ABadTraceparentIsDropped) {
  start();
  RawClient client = connect();
  const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  client.send(get_text("/held", "traceparent: " + good + "\r\n"));
  EXPECT_EQ(held.wait()->request().fields.get("Traceparent"), good);
  held.wait()->send({});
  EXPECT_EQ(client.receive().status, 200);
  client.send(get_text("/held", "traceparent: 00-bad\r\n"));
  EXPECT_FALSE(held.wait(1)->request().fields.get("traceparent"));
}

TEST_F(HttpRequests, WhoWaitsHearsThatTheClientIsGone) {
  start();
  Arrivals<int> gone;
  for (const bool is_reset : {false, true}) {
    RawClient client = connect();
    client.send(get_text("/held"));
    const ExchangePtr exchange = held.wait(is_reset ? 1 : 0);
    exchange->on_gone([&gone] { gone.add(1); });
    if (is_reset) {
      client.reset();
    } else {
      const RawClient closed = std::move(client);
    }
    gone.wait(is_reset ? 1 : 0);
    exchange->send(json_response("nobody reads this"));
  }
  observer.wait_for_connections(0);
  // Whoever asks too late hears it, too.
  held.wait()->on_gone([&gone] { gone.add(1); });
  gone.wait(2);
}

TEST_F(HttpRequests, NobodyIsGoneWhoWasAnswered) {
  start();
  Arrivals<int> gone;
  {
    RawClient client = connect();
    client.send(get_text("/held"));
    held.wait()->on_gone([&gone] { gone.add(1); });
    held.wait()->send({});
    EXPECT_EQ(client.receive().status, 200);
  }
  observer.wait_for_connections(0);
  EXPECT_EQ(gone.count(), 0U);
}

TEST_F(HttpRequests, APipelineIsNotLostWhileAnAnswerIsPending) {
  start();
  RawClient client = connect();
  client.send(get_text("/held"));
  held.wait()->on_gone([] { ADD_FAILURE() << "it is still there"; });
  // More than the buffer of a waiting connection holds.
  const std::string body(20'000, 'x');
  client.send(request_text("POST", "/echo", body) + get_text("/hello"));
  held.wait()->send(json_response("at last"));
  EXPECT_EQ(client.receive().body, "at last");
  EXPECT_EQ(client.receive().body, body);
  EXPECT_EQ(client.receive().body, R"({"ok":true})");
}

TEST_F(HttpRequests, ManyAnswersFromOneThreadReachTheirConnections) {
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 64; ++i) clients.push_back(connect());
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      clients[i].send(request_text("POST", "/later", std::to_string(i)));
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
      ASSERT_EQ(clients[i].receive().body, std::to_string(i));
    }
  }
}

using HttpStreams = HttpTest;

TEST_F(HttpStreams, ABodyComesPieceByPieceAsItIsAskedFor) {
  start();
  sink->is_patient = true;
  RawClient client = connect();
  client.send("POST /streamed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("5\r\nfirst\r\n");
  EXPECT_EQ(sink->pieces.wait(0), "first");
  client.send("6\r\nsecond\r\n0\r\n\r\n");
  sink->mores.wait(0)();
  EXPECT_EQ(sink->pieces.wait(1), "second");
  EXPECT_EQ(sink->ended.count(), 0U);
  sink->mores.wait(1)();
  sink->ended.wait();
  held.wait()->send(json_response("took it"));
  EXPECT_EQ(client.receive().body, "took it");
  EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpStreams, ABodyBeyondTheLimitOfWholeOnesIsFineAndHeldNowhere) {
  options.limits.max_body_bytes = 2'000;
  start();
  RawClient client = connect();
  constexpr std::size_t kBytes = 4 << 20;
  std::jthread sender(
      [&] { client.send(request_text("POST", "/streamed", std::string(kBytes, 'x'))); });
  sink->ended.wait();
  std::size_t got = 0;
  for (std::size_t i = 0; i < sink->pieces.count(); ++i) {
    got += sink->pieces.wait(i).size();
    EXPECT_LE(sink->pieces.wait(i).size(), std::size_t{64} << 10);
  }
  EXPECT_EQ(got, kBytes);
  held.wait()->send({});
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(HttpStreams, ASenderIsSlowedDownByASlowSink) {
  start();
  sink->is_patient = true;
  RawClient client = connect();
  std::atomic<bool> has_sent = false;
  std::jthread sender([&] {
    client.send(request_text("POST", "/streamed", std::string(32 << 20, 'x')));
    has_sent = true;
  });
  sink->pieces.wait();
  EXPECT_FALSE(has_sent);
  EXPECT_EQ(sink->pieces.count(), 1U);
  // An answer in the middle of the body ends the request, and with it the connection.
  held.wait()->send(json_response("enough"));
  const RawResponse response = client.receive();
  EXPECT_EQ(response.body, "enough");
  EXPECT_EQ(response.field("Connection"), "close");
}

TEST_F(HttpStreams, ASinkHearsThatTheClientIsGone) {
  start();
  {
    RawClient client = connect();
    client.send("POST /streamed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nab");
    sink->pieces.wait();
  }
  sink->broken.wait();
  EXPECT_EQ(sink->ended.count(), 0U);
}

TEST_F(HttpStreams, ASinkHearsThatTheClientIsTooSlow) {
  options.limits.request_timeout = Duration{60};
  start();
  RawClient client = connect();
  client.send("POST /streamed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nab");
  sink->pieces.wait();
  move_time_until_news(client);
  sink->broken.wait();
  EXPECT_EQ(client.receive().status, 408);
}

TEST_F(HttpStreams, PartsThatKeepComingDoNotMoveTheDeadlineOfTheWhole) {
  options.limits.stream_timeout = Duration{100};
  start();
  RawClient client = connect();
  client.send("POST /streamed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int part = 0; part < 10'000 && !client.has_news(std::chrono::milliseconds{5}); ++part) {
    client.send("2\r\nab\r\n");
    clock.advance(Duration{10});
  }
  sink->broken.wait();
  EXPECT_EQ(client.receive().status, 408);
}

TEST_F(HttpStreams, ASinkHearsOfBadChunks) {
  start();
  RawClient client = connect();
  client.send(
      "POST /streamed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\nab\r\nzz\r\n");
  sink->broken.wait();
  EXPECT_EQ(client.receive().status, 400);
}

/// As the service's own sinks do, it alone has the request.
class OwningSink final : public BodySink {
 public:
  explicit OwningSink(ExchangePtr exchange) : exchange_(std::move(exchange)) {}
  void on_data(std::string /*piece*/, std::function<void()> more) override { more(); }
  void on_end() override {}
  void on_broken() noexcept override {}

 private:
  const ExchangePtr exchange_;
};

TEST_F(HttpStreams, ARefusalIsNotOvertakenByTheSinkThatIsLetGo) {
  router.add({.method = Method::post,
              .pattern = "/owned",
              .scope = Scope::open,
              .handler =
                  [](const ExchangePtr& exchange) {
                    exchange->read_body(std::make_shared<OwningSink>(exchange));
                  },
              .body = BodyKind::streamed});
  start();
  RawClient client = connect();
  client.send(
      "POST /owned HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\nab\r\nzz\r\n");
  EXPECT_EQ(client.receive().status, 400);
}

TEST_F(HttpStreams, AnEmptyBodyEndsAtOnce) {
  start();
  RawClient client = connect();
  client.send(request_text("POST", "/streamed"));
  sink->ended.wait();
  held.wait()->send({});
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(HttpStreams, TheClientIsToldToGoOnWhenTheBodyIsWanted) {
  start();
  RawClient client = connect();
  client.send(
      "POST /streamed HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 2\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  client.send("ab");
  sink->ended.wait();
}

TEST_F(HttpStreams, EventsComeAsTheyHappen) {
  start();
  RawClient client = connect();
  client.send(get_text("/events"));
  const auto stream = streams.wait();
  EXPECT_TRUE(stream->write("data: 1\n\n"));
  const std::string head = client.peek(100);
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(stream->write("data: 2\n\n"));
  stream->end();
  EXPECT_FALSE(stream->write("data: 3\n\n"));
  const RawResponse response = client.receive();
  EXPECT_EQ(response.field("Transfer-Encoding"), "chunked");
  EXPECT_EQ(response.field("Content-Type"), "text/event-stream");
  EXPECT_EQ(response.body, "data: 1\n\ndata: 2\n\n");
  EXPECT_EQ(client.ask(get_text("/hello")).status, 200);
}

TEST_F(HttpStreams, AStreamThatNobodyOwnsEnds) {
  start();
  RawClient client = connect();
  client.send(get_text("/events"));
  streams.wait()->write("x");
  streams.clear();
  EXPECT_EQ(client.receive().body, "x");
}

TEST_F(HttpStreams, Http10GetsAStreamUntilTheEnd) {
  start();
  RawClient client = connect();
  client.send("GET /events HTTP/1.0\r\n\r\n");
  streams.wait()->write("some");
  streams.wait()->write("thing");
  streams.wait()->end();
  const RawResponse response = client.receive();
  EXPECT_EQ(response.field("Transfer-Encoding"), "");
  EXPECT_EQ(response.body, "something");
}

TEST_F(HttpStreams, AStreamEndsWithItsClient) {
  start();
  {
    RawClient client = connect();
    client.send(get_text("/events"));
    streams.wait();
  }
  observer.wait_for_connections(0);
  EXPECT_FALSE(streams.wait()->write("x"));
}

TEST_F(HttpStreams, AClientThatDoesNotReadIsCutOff) {
  start();
  RawClient client = connect();
  client.set_receive_buffer(4096);
  client.send(get_text("/events"));
  const auto stream = streams.wait();
  const std::string piece(64 << 10, 'x');
  // The kernel takes some megabytes; then they gather, and then it is over.
  int taken = 0;
  while (stream->write(piece)) ++taken;
  EXPECT_GT(taken, 3);
  observer.wait_for_connections(0);
}

}  // namespace
}  // namespace oncebox::server
