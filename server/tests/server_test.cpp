#include "oncebox/server/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <thread>

#include "faulty_store.hpp"
#include "http_fixture.hpp"
#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/testing/span_record.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "watched.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Keeps whoever asks it for its number of dropped lines, as the metrics do, until it is let go.
class HeldLogger final : public Logger {
 public:
  [[nodiscard]] bool enabled(LogLevel) const noexcept override { return false; }
  void write(LogLevel, std::string_view, std::span<const LogField>) noexcept override {}
  [[nodiscard]] std::uint64_t dropped_lines() const noexcept override {
    opened_.wait();
    return 0;
  }
  void let_go() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  const std::shared_future<void> opened_ = promise_.get_future().share();
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    options.listen.port = 0;
    options.auth.token_variable = "";
  }
  Server& start() {
    server.emplace(options, std::vector<NamedStore>{{"main", store}},
                   Surroundings{.logger = logger, .clock = clock});
    server->start();
    return *server;
  }
  [[nodiscard]] RawClient connect() const { return RawClient(server->port()); }
  RawResponse get(const std::string& path) const { return connect().ask(get_text(path)); }
  RawResponse post(const std::string& path, const std::string& body,
                   const std::string& fields = {}) const {
    return connect().ask(
        request_text("POST", path, body, fields + "Content-Type: application/json\r\n"));
  }

  SystemClock clock;
  memory::MemoryStore store;
  KeepingLogger logger;
  ServerOptions options;
  std::optional<Server> server;
};

TEST_F(ServerTest, TakesAMessageHandsItOutAndForgetsNothing) {
  start();
  const std::string message =
      R"({"source":"shop","messageId":"42","topic":"order.created","payload":{"total":7}})";
  RawResponse response = post("/v1/messages", message);
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_THAT(response.body, HasSubstr("Accepted"));
  EXPECT_THAT(post("/v1/messages", message).body, HasSubstr("Duplicate"));
  EXPECT_THAT(get("/v1/messages/shop/42").body, HasSubstr("order.created"));
  response = post("/v1/stores/main/messages/claim", "{}");
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_THAT(response.body, HasSubstr("\"messageId\":\"42\""));
}

TEST_F(ServerTest, TellsThatItLivesAndIsReady) {
  start();
  EXPECT_EQ(get("/healthz").body, R"({"status":"ok"})");
  // The store is not waited for long, and a busy machine may need longer.
  RawResponse ready;
  EXPECT_TRUE(eventually([&] { return (ready = get("/readyz")).status == 200; }));
  EXPECT_EQ(ready.body, R"({"status":"ready"})");
  const RawResponse metrics = get("/metrics");
  EXPECT_THAT(metrics.field("Content-Type"), StartsWith("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("route=\"/healthz\""));
  EXPECT_EQ(get("/openapi.json").status, 200);
  EXPECT_THAT(get("/docs").field("Content-Security-Policy"), HasSubstr("script-src 'self'"));
}

TEST_F(ServerTest, SpansOfFanOutAndDeliveriesGoToTheTracer) {
  RecordProperty("requirement", "R-37");
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const testing::ScriptedServer receiver(
      [](const testing::ReceivedRequest&) { return testing::Reaction{.status = 200}; });
  testing::SpanRecord spans;
  options.publish.endpoints = {{.name = "crm",
                                .url = receiver.url(),
                                .topics = {"order.*"},
                                .secrets = {"literal:whsec_Zmlyc3Qtc2VjcmV0"},
                                .allow_private = true}};
  server.emplace(options, std::vector<NamedStore>{{"main", store}},
                 Surroundings{.logger = logger, .clock = clock, .tracer = &spans});
  server->start();
  const RawResponse taken =
      post("/v1/outbox/messages",
           R"({"source":"shop","messageId":"1","topic":"order.paid","payload":{}})",
           "traceparent: 00-" + trace + "-00f067aa0ba902b7-01\r\n");
  EXPECT_EQ(taken.status, 200) << taken.body;
  std::set<std::string> published;
  EXPECT_TRUE(eventually([&] {
    for (const SpanOperation operation : {SpanOperation::handle, SpanOperation::publish}) {
      for (const auto& span : spans.spans_of(operation)) {
        const bool is_of_it = span.context.traceparent().find(trace) != std::string::npos;
        if (is_of_it) published.insert(span.target);
      }
    }
    return published == std::set<std::string>{"order.paid", "crm"};
  }));
  server.reset();  // before the tracer
}

TEST_F(ServerTest, AFloodOfProbesSharesOneAnswer) {
  SilentStore silent(clock);
  server.emplace(options, std::vector<NamedStore>{{"main", silent}},
                 Surroundings{.logger = logger, .clock = clock});
  server->start();
  // Far more than any queue of calls takes.
  std::vector<RawClient> probes;
  for (int i = 0; i < 200; ++i) {
    probes.push_back(connect());
    probes.back().send(get_text("/readyz"));
  }
  EXPECT_EQ(get("/healthz").status, 200);
  silent.let_go();
  for (RawClient& probe : probes) {
    const RawResponse answer = probe.receive();
    // The store is not waited for long, and a busy machine may need longer.
    if (answer.status == 200) continue;
    EXPECT_THAT(answer.body, HasSubstr("a store cannot be used")) << answer.status;
  }
  EXPECT_TRUE(eventually([&] { return get("/readyz").status == 200; }));
  server.reset();
}

TEST_F(ServerTest, WhoeverAsksForMetricsMeanwhileSharesOneAnswer) {
  HeldLogger held;
  server.emplace(options, std::vector<NamedStore>{{"main", store}},
                 Surroundings{.logger = held, .clock = clock});
  server->start();
  // Far more than any queue of calls takes.
  std::vector<RawClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(connect());
    clients.back().send(get_text("/metrics"));
  }
  EXPECT_EQ(get("/healthz").status, 200);
  held.let_go();
  for (RawClient& client : clients) EXPECT_EQ(client.receive().status, 200);
  server.reset();
}

TEST_F(ServerTest, AnUnknownWebhookIsRefusedBeforeItsBodyIsSent) {
  options.webhooks = {{.name = "hook", .scheme = WebhookScheme::none}};
  start();
  RawClient client = connect();
  client.send(
      "POST /v1/webhooks/nobody HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.receive().status, 404);
  RawClient behind = connect();
  behind.send(
      "POST /v1/webhooks/hook/more HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Length: 1000000\r\n\r\n");
  EXPECT_EQ(behind.receive().status, 404);
  EXPECT_EQ(post("/v1/webhooks/hook", "{}").status, 200);
}

TEST_F(ServerTest, UnfinishedLinesCountInTheBudgetOfMemory) {
  RecordProperty("requirement", "R-38");
  options.limits.max_body_bytes = std::size_t{2} << 20;
  options.limits.memory_bytes = std::size_t{32} << 20;
  start();
  const std::string begun =
      "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n"
      "Content-Type: application/x-ndjson\r\n\r\n" +
      std::string(1'900'000, 'x');
  std::vector<RawClient> clients;
  std::size_t refused = 0;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(connect());
    clients.back().send(begun);
  }
  EXPECT_TRUE(eventually([&] {
    for (RawClient& client : clients) {
      if (!client.has_news(std::chrono::milliseconds{0})) continue;
      const auto response = client.try_receive();
      if (!response) continue;
      EXPECT_EQ(response->status, 503);
      EXPECT_THAT(response->body, HasSubstr("limits.memory"));
      ++refused;
    }
    return refused >= 5;
  })) << refused;
  EXPECT_EQ(post("/v1/messages", R"({"messageId":"1","topic":"t","payload":1})").status, 200);
  EXPECT_THAT(get("/metrics").body, HasSubstr("oncebox_http_held_bytes{part=\"callers\"}"));
}

TEST_F(ServerTest, WaitingClaimsAreAnsweredWhenItStops) {
  Server& running = start();
  RawClient client = connect();
  client.send(request_text("POST", "/v1/messages/claim", R"({"waitSeconds":30})",
                           "Content-Type: application/json\r\n"));
  // Two connections at least are there once this one is answered; the claim came before it.
  EXPECT_EQ(get("/healthz").status, 200);
  const DrainResult result = running.stop(std::chrono::seconds{60});
  EXPECT_TRUE(result.complete());
  if (const auto response = client.try_receive()) {
    EXPECT_EQ(response->status, 200) << response->body;
    EXPECT_EQ(response->field("Connection"), "close");
  }
  EXPECT_THROW(static_cast<void>(connect()), std::runtime_error);
  EXPECT_TRUE(running.stop(Duration::zero()).complete());
}

TEST_F(ServerTest, IsNotReadyWhileItDrains) {
  Server& running = start();
  // A probe that was begun before, and of which the rest comes later.
  RawClient probe = connect();
  const RawResponse begun = probe.ask(
      "GET /readyz HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 2\r\n\r\n");
  EXPECT_EQ(begun.status, 100);
  DrainResult result{.unanswered = 99};
  std::jthread stopper([&] { result = running.stop(std::chrono::seconds{60}); });
  for (bool is_listening = true; is_listening;) {
    try {
      static_cast<void>(connect());
    } catch (const std::runtime_error&) {
      is_listening = false;
    }
  }
  const RawResponse response = probe.ask("{}");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(code_of(response), "unavailable");
  EXPECT_EQ(response.field("Connection"), "close");
  stopper.join();
  EXPECT_TRUE(result.complete());
}

TEST_F(ServerTest, RevokedTokensEndWhatIsUnderWay) {
  const testing::TemporaryFolder folder;
  options.auth.token_file = folder.file("tokens");
  const auto write_tokens = [&](const std::string& lines) {
    std::ofstream(options.auth.token_file) << lines;
  };
  write_tokens(
      "worker consume,read,produce the-old-secret-0123\n"
      "other consume,read the-other-secret-0123\n"
      "limited consume the-third-secret-0123\n");
  Server& running = start();
  const auto begin = [&](const std::string& secret, const std::string& method,
                         const std::string& path, const std::string& body, const char* type) {
    RawClient client = connect();
    client.send(request_text(
        method, path, body,
        "Authorization: Bearer " + secret + "\r\n" + "Content-Type: " + type + "\r\n"));
    return client;
  };
  const std::string wait = R"({"waitSeconds":60})";
  const char* const json = "application/json";
  RawClient claim = begin("the-old-secret-0123", "POST", "/v1/messages/claim", wait, json);
  RawClient kept = begin("the-other-secret-0123", "POST", "/v1/messages/claim", wait, json);
  RawClient shrunk = begin("the-third-secret-0123", "POST", "/v1/messages/claim", wait, json);
  RawClient events = begin("the-old-secret-0123", "GET", "/v1/events", "", json);
  RawClient lines = connect();
  const RawResponse begun = lines.ask(
      "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
      "Expect: 100-continue\r\nAuthorization: Bearer the-old-secret-0123\r\n"
      "Content-Type: application/x-ndjson\r\n\r\n");
  EXPECT_EQ(begun.status, 100);
  (void)events.peek_until("retry:");
  const std::string admin = "Authorization: Bearer the-other-secret-0123\r\n";
  EXPECT_TRUE(eventually([&] {
    const RawResponse metrics = connect().ask(get_text("/metrics", admin));
    return metrics.body.find("oncebox_waiting_claims{store=\"main\"} 3") != std::string::npos;
  }));

  write_tokens(
      "other consume,read the-other-secret-0123\n"
      "limited consume the-third-secret-0123 topics=mail.*\n");
  EXPECT_TRUE(running.reload());
  const RawResponse refused = claim.receive();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(code_of(refused), "unauthorized");
  EXPECT_EQ(shrunk.receive().status, 200) << "its client asks again, by the new limits";
  EXPECT_EQ(events.receive().status, 200) << "the stream has ended";
  lines.send("1b\r\n{\"topic\":\"t\",\"payload\":11}\n\r\n0\r\n\r\n");
  EXPECT_EQ(lines.receive().status, 401);
  EXPECT_FALSE(kept.has_news(std::chrono::milliseconds{0}));
}

TEST_F(ServerTest, ReadsItsTokensAgain) {
  const testing::TemporaryFolder folder;
  options.auth.token_file = folder.file("tokens");
  std::ofstream(options.auth.token_file) << "shop produce the-old-secret-0123\n";
  Server& running = start();
  const std::string message = R"({"topic":"a","payload":1})";
  const std::string old_token = "Authorization: Bearer the-old-secret-0123\r\n";
  EXPECT_EQ(post("/v1/messages", message, old_token).status, 200);
  EXPECT_EQ(post("/v1/messages", message).status, 401);
  std::ofstream(options.auth.token_file) << "shop produce the-new-secret-0123\n";
  EXPECT_TRUE(running.reload());
  EXPECT_EQ(post("/v1/messages", message, old_token).status, 401);
  std::ofstream(options.auth.token_file) << "nonsense\n";
  EXPECT_FALSE(running.reload());
  EXPECT_EQ(post("/v1/messages", message, "Authorization: Bearer the-new-secret-0123\r\n").status,
            200);
}

TEST_F(ServerTest, LinesAboutARequestCarryTheNameOfItsStore) {
  RecordProperty("requirement", "IBX-113");
  options.webhooks = {{.name = "hook", .scheme = WebhookScheme::none}};
  start();
  const auto line_of = [this](const std::string& route) {
    for (std::size_t number = 0;; ++number) {
      std::string line = logger.lines.wait(number);
      if (line.find("route=" + route) != line.npos) return line;
    }
  };
  post("/v1/messages", R"({"source":"shop","messageId":"1","topic":"t","payload":""})");
  EXPECT_THAT(line_of("/v1/messages "), HasSubstr("store=main"));
  get("/v1/stores/main/messages/shop/1");
  EXPECT_THAT(line_of("/v1/stores/{store}/messages"), HasSubstr("store=main"));
  post("/v1/webhooks/hook", "{}");
  EXPECT_THAT(line_of("/v1/webhooks"), HasSubstr("store=main"));
  get("/v1/stores/nobody/stats");
  EXPECT_THAT(line_of("/v1/stores/{store}/stats"), Not(HasSubstr("store=")));
  get("/healthz");
  EXPECT_THAT(line_of("/healthz"), Not(HasSubstr("store=")));
}

TEST_F(ServerTest, RefusesOptionsThatDoNotFit) {
  options.limits.max_connections = 0;
  EXPECT_THROW(start(), Error);
  options.limits.max_connections = 10;
  options.listen.host = "0.0.0.0";
  EXPECT_THROW(start(), Error);
}

TEST_F(ServerTest, RefusesStoresThatWillNeverBeThere) {
  options.default_store = "nowhere";
  EXPECT_THROW(start(), Error);
  options.default_store = "";
  options.webhooks = {{.name = "hook", .store = "nowhere", .scheme = WebhookScheme::none}};
  EXPECT_THROW(start(), Error);
  options.webhooks.front().store = "main";
  EXPECT_NO_THROW(start());
}

TEST_F(ServerTest, ListensOnceForAnAddress) {
  start();
  options.listen.port = server->port();
  Server second(options, {{"main", store}}, {.logger = logger, .clock = clock});
  EXPECT_THROW(second.start(), Error);
}

/// The first line that the logger has with this text in it.
std::string line_with(KeepingLogger& logger, std::string_view text) {
  for (std::size_t i = 0;; ++i) {
    std::string line = logger.lines.wait(i);
    if (line.find(text) != line.npos) return line;
  }
}

TEST_F(ServerTest, LinesAboutAMessageCarryItsIdsAndTheRequests) {
  RecordProperty("requirement", "MSG-10,R-33");
  start();
  const std::string owner = "01890a5d-ac96-774b-bcce-b302099a8057";
  post("/v1/messages",
       R"({"source":"shop","messageId":"42","topic":"order.created","partitionKey":"c-7",)"
       R"("payload":{},"headers":{"correlationId":"corr-1","causationId":"cause-1"}})",
       "X-Request-Id: r-enqueue\r\n");
  EXPECT_THAT(line_with(logger, "info message enqueued"),
              HasSubstr("topic=order.created source=shop message_id=42 outcome=accepted "
                        "correlation_id=corr-1 causation_id=cause-1 partition=c-7 "
                        "request_id=r-enqueue"));
  post("/v1/messages/claim", R"({"owner":")" + owner + R"("})");
  const std::string settle = R"({"owner":")" + owner +
                             R"(","items":[{"source":"shop","messageId":"42","verdict":"Fail",)"
                             R"("error":"s3cret"}]})";
  post("/v1/messages/settle", settle, "X-Request-Id: r-settle\r\n");
  EXPECT_THAT(line_with(logger, "warning message is dead"),
              HasSubstr("store=main topic=order.created source=shop message_id=42 reason=failed "
                        "correlation_id=corr-1 causation_id=cause-1 partition=c-7 "
                        "request_id=r-settle"));
  post("/v1/messages/settle", settle, "X-Request-Id: r-again\r\n");
  EXPECT_THAT(line_with(logger, "info delivery not settled"),
              HasSubstr("outcome=lease_lost correlation_id=corr-1 causation_id=cause-1 "
                        "partition=c-7 request_id=r-again"));
}

TEST_F(ServerTest, AWebhookIsLoggedWithItsRequest) {
  RecordProperty("requirement", "MSG-10");
  options.webhooks = {{.name = "hook",
                       .scheme = WebhookScheme::none,
                       .message_id = "42",
                       .partition_key = "{header:X-Customer}"}};
  start();
  post("/v1/webhooks/hook", "{}", "X-Request-Id: r-hook\r\nX-Customer: c-7\r\n");
  EXPECT_THAT(line_with(logger, "info message enqueued"),
              HasSubstr("topic=hook source=hook message_id=42 outcome=accepted partition=c-7 "
                        "request_id=r-hook"));
}

TEST_F(ServerTest, AMarkAsDeadIsLoggedAndCountedOnce) {
  RecordProperty("requirement", "R-33");
  start();
  post("/v1/messages", R"({"source":"shop","messageId":"42","topic":"t","payload":{}})");
  const std::string mark = R"({"items":[{"source":"shop","messageId":"42","as":"Dead"}]})";
  EXPECT_THAT(post("/v1/messages/mark", mark, "X-Request-Id: r-mark\r\n").body,
              HasSubstr("Marked"));
  EXPECT_THAT(line_with(logger, "warning message is dead"),
              HasSubstr("source=shop message_id=42 reason=marked request_id=r-mark"));
  EXPECT_THAT(post("/v1/messages/mark", mark).body, HasSubstr("Already"));
  EXPECT_THAT(
      get("/metrics").body,
      HasSubstr(R"(oncebox_messages_dead_total{cause="marked",queue="inbox",store="main"} 1)"));
}

}  // namespace
}  // namespace oncebox::server
