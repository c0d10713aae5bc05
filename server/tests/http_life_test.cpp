#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "http/answers.hpp"
#include "http_fixture.hpp"
#include "resident_memory.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using HttpLife = HttpTest;
constexpr Duration kLong = std::chrono::seconds{60};

TEST_F(HttpLife, RequestsUnderWayAreAnsweredBeforeItStops) {
  HttpServer& server = start();
  RawClient idle = connect();
  EXPECT_EQ(idle.ask(get_text("/hello")).status, 200);
  RawClient busy = connect();
  busy.send(request_text("POST", "/held", "x"));
  const ExchangePtr exchange = held.wait();

  std::size_t unanswered = 99;
  std::jthread stopper([&] { unanswered = server.stop(kLong); });
  // The idle one is gone, so it drains.
  EXPECT_EQ(idle.receive_rest(), "");
  EXPECT_THROW((void)connect(), std::runtime_error);
  EXPECT_TRUE(server.is_draining());
  exchange->send(json_response("done"));
  const RawResponse response = busy.receive();
  EXPECT_EQ(response.body, "done");
  EXPECT_EQ(response.field("Connection"), "close");
  EXPECT_EQ(busy.receive_rest(), "");
  stopper.join();
  EXPECT_EQ(unanswered, 0U);
  EXPECT_EQ(server.stop(kLong), 0U);
}

TEST_F(HttpLife, APipelineIsCutBehindTheAnswerThatSaysSo) {
  HttpServer& server = start();
  RawClient client = connect();
  client.send(get_text("/held") + get_text("/hello"));
  held.wait();
  server.drain();
  held.wait()->send(json_response("last"));
  const RawResponse response = client.receive();
  EXPECT_EQ(response.body, "last");
  EXPECT_EQ(response.field("Connection"), "close");
  EXPECT_EQ(client.receive_rest(), "");
}

TEST_F(HttpLife, WhatIsLeftAfterTheDeadlineIsCountedAndCutOff) {
  HttpServer& server = start();
  Arrivals<int> gone;
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < 5; ++i) {
    clients.push_back(connect());
    clients.back().send(get_text("/held"));
    held.wait(i)->on_gone([&gone] { gone.add(1); });
  }
  auto unanswered = std::async([&] { return server.stop(std::chrono::seconds{20}); });
  clock.advance(std::chrono::seconds{19});
  EXPECT_EQ(gone.count(), 0U) << "they have all the time that was given";
  while (unanswered.wait_for(std::chrono::milliseconds{1}) != std::future_status::ready) {
    clock.advance(std::chrono::seconds{1});
  }
  EXPECT_EQ(unanswered.get(), 5U);
  gone.wait(4);
  for (RawClient& client : clients) EXPECT_FALSE(client.try_receive());
  // Late answers find nobody, and do no harm.
  for (std::size_t i = 0; i < 5; ++i) held.wait(i)->send({});
}

TEST_F(HttpLife, ItStopsInTheMiddleOfEverything) {
  for (int round = 0; round < 5; ++round) {
    start();
    std::atomic<bool> ends = false;
    std::vector<std::jthread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&, i] {
        try {
          RawClient client = connect();
          while (!ends) {
            client.send(request_text("POST", i % 2 == 0 ? "/later" : "/echo", "x"));
            if (!client.try_receive()) return;
          }
        } catch (const std::exception&) {
          // It was cut off, which is what this is about.
        }
      });
    }
    observer.requests.wait(100);
    EXPECT_EQ(server_->stop(kLong), 0U);
    ends = true;
    clients.clear();
    server_.reset();
  }
}

TEST_F(HttpLife, AnExchangeMayOutliveTheServer) {
  start();
  RawClient client = connect();
  client.send(get_text("/held"));
  ExchangePtr exchange = held.wait();
  client.send(get_text("/events"));
  held.clear();
  server_.reset();
  exchange->on_gone([] {});
  exchange->send(json_response("too late"));
  exchange.reset();
}

/// An answer that tells when it could not be delivered.
Response telling_response(Arrivals<int>& undelivered) {
  Response response = json_response("given");
  response.undelivered = [&undelivered] { undelivered.add(1); };
  return response;
}

TEST_F(HttpLife, AnAnswerThatNobodyWaitsForIsUndelivered) {
  start();
  Arrivals<int> undelivered;
  RawClient leaving = connect();
  leaving.send(get_text("/held"));
  ExchangePtr exchange = held.wait();
  leaving.reset();
  EXPECT_EQ(observer.requests.wait().status, 499);
  exchange->send(telling_response(undelivered));
  held.clear();
  exchange.reset();
  undelivered.wait();

  RawClient cut_off = connect();
  cut_off.send(get_text("/held"));
  exchange = held.wait();
  server_.reset();
  exchange->send(telling_response(undelivered));
  held.clear();
  exchange.reset();
  EXPECT_EQ(undelivered.count(), 2U);
}

TEST_F(HttpLife, AnAnswerThatWasSentIsNotUndelivered) {
  start();
  Arrivals<int> undelivered;
  {
    RawClient staying = connect();
    staying.send(get_text("/held"));
    held.wait()->send(telling_response(undelivered));
    EXPECT_EQ(staying.receive().body, "given");
    // Of this one no more will be heard, but it listens.
    RawClient silent = connect();
    silent.send(get_text("/held"));
    silent.half_close();
    held.wait(1)->send(telling_response(undelivered));
    EXPECT_EQ(silent.receive().body, "given");
  }
  observer.wait_for_connections(0);
  held.clear();
  server_.reset();
  EXPECT_EQ(undelivered.count(), 0U);
}

TEST_F(HttpLife, AServerThatWasNeverStartedEnds) {
  authenticator.emplace(options.auth, logger);
  const HttpServer server(options, router, *authenticator, logger, observer, clock);
  EXPECT_EQ(server.port(), 0);
}

TEST_F(HttpLife, AThousandIdleConnectionsCostLittle) {
  RecordProperty("requirement", "R-38");
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  start();
  const std::size_t before = resident_bytes();
  std::vector<RawClient> clients;
  for (int i = 0; i < 1'000; ++i) {
    clients.push_back(connect());
    clients.back().send(request_text("POST", "/echo", "x"));
  }
  for (RawClient& client : clients) ASSERT_EQ(client.receive().status, 200);
  const std::size_t after = resident_bytes();
  // The clients of the test are in it, too.
  EXPECT_TRUE(kIsSanitized || after < before + (std::size_t{32} << 20)) << before << " " << after;
  for (RawClient& client : clients) {
    ASSERT_EQ(client.ask(get_text("/hello")).status, 200);
  }
}

TEST_F(HttpLife, TheAccessLogSaysWhatNobodyNeedsToHide) {
  start();
  connect().ask(get_text("/request/a/b?token=geheim",
                         "X-Request-Id: r-1\r\nAuthorization: Bearer geheim\r\n"));
  const std::string line = logger.lines.wait();
  EXPECT_THAT(line, HasSubstr("info request method=GET route=/request/{a}/{b*} status=200 ms="));
  EXPECT_THAT(line, HasSubstr("peer=127.0.0.1 request_id=r-1 principal=anonymous"));
  EXPECT_THAT(line, HasSubstr("bytes_in="));
  EXPECT_THAT(line, Not(HasSubstr("geheim")));

  connect().ask(get_text("/nowhere?token=geheim"));
  EXPECT_THAT(logger.lines.wait(1), HasSubstr("path=/nowhere status=404"));
  EXPECT_THAT(logger.lines.wait(1), Not(HasSubstr("geheim")));
}

TEST_F(HttpLife, TheCauseOfAFailureIsInTheLogAlone) {
  start();
  const RawResponse response = connect().ask(get_text("/throws/other", "X-Request-Id: r-2\r\n"));
  EXPECT_THAT(response.body, Not(HasSubstr("secret detail")));
  EXPECT_THAT(logger.lines.wait(),
              HasSubstr("error request failed request_id=r-2 route=/throws/{what} "
                        "cause=\"a secret detail\""));
}

TEST_F(HttpLife, TheAccessLogCanBeLeftToErrors) {
  options.access_log = AccessLog::errors;
  start();
  connect().ask(get_text("/hello"));
  connect().ask(get_text("/nowhere"));
  EXPECT_THAT(logger.lines.wait(), HasSubstr("path=/nowhere"));
}

TEST_F(HttpLife, TheAccessLogCanBeOff) {
  options.access_log = AccessLog::off;
  start();
  connect().ask(get_text("/hello"));
  connect().ask(get_text("/nowhere"));
  observer.requests.wait(1);
  EXPECT_EQ(logger.lines.count(), 0U);
}

TEST_F(HttpLife, TheObserverHearsOfEveryRequest) {
  start();
  const RawResponse response = connect().ask(request_text("POST", "/echo", "12345"));
  const auto seen = observer.requests.wait();
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.route, "/echo");
  EXPECT_EQ(seen.status, 200);
  EXPECT_EQ(seen.bytes_in, request_text("POST", "/echo", "12345").size());
  EXPECT_EQ(seen.bytes_out, response.head.size() + 4 + 5);
  observer.wait_for_connections(0);
}

TEST_F(HttpLife, AClientThatLeftIsLoggedAsSuch) {
  start();
  {
    RawClient client = connect();
    client.send(get_text("/held"));
    held.wait();
    client.reset();
  }
  EXPECT_EQ(observer.requests.wait().status, 499);
}

TEST_F(HttpLife, AfterTheClientHasResetTheConnectionNoPipelinedRequestIsHandled) {
  options.io_threads = 1;
  std::optional<RawClient> client;
  router.add(
      {.method = Method::get, .pattern = "/reset", .handler = [&](const ExchangePtr& exchange) {
         client->reset();
         exchange->send({.body = std::string(10'000, 'x')});
       }});
  start();
  client.emplace(server_->port());
  std::string requests = get_text("/reset");
  constexpr std::size_t kMore = 20;
  for (std::size_t i = 0; i < kMore; ++i) requests += get_text("/large/10000");
  ASSERT_LT(requests.size(), 4'096U) << "they are read at once";
  client->send(requests);
  observer.wait_for_connections(0);
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 200);
  EXPECT_LE(observer.requests.count(), 4U) << "answers of 16 KiB were gathered, then written";
}

}  // namespace
}  // namespace oncebox::server
