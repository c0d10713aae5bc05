#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>

#include "api_fixture.hpp"
#include "api_http_client.hpp"
#include "exchange_record.hpp"
#include "faulty_store.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

ServerOptions http_options() {
  ServerOptions options = quiet_options();
  options.listen.port = 0;
  options.io_threads = 2;
  options.auth.token_variable.clear();
  return options;
}

/// The whole server on a free port.
class OverHttp : public ::testing::TestWithParam<StoreKind> {
 protected:
  explicit OverHttp(const ServerOptions& options = http_options())
      : server_(options, {{"main", *store_}}, logger_, clock_), routes_(options) {
    server_.start();
  }

  Response call(HttpClient& client, const TestCall& call) {
    Response response = client.call(call);
    routes_.record(call, response);
    return response;
  }
  Response call(const TestCall& one) {
    if (!client_) client_.emplace(server_.port());
    return call(*client_, one);
  }
  json::value ask(const TestCall& one) {
    const Response response = call(one);
    EXPECT_EQ(response.status, 200) << one.target << " " << response.body;
    EXPECT_EQ(response.content_type, "application/json");
    return json_of(response);
  }

  [[nodiscard]] int waiting() {
    const std::string text = call(get("/metrics")).body;
    const std::string name = "\noncebox_waiting_claims ";
    const std::size_t at = text.find(name);
    return at == text.npos ? -1 : std::stoi(text.substr(at + name.size()));
  }

  SystemClock clock_;
  NullLogger logger_;
  testing::TemporaryFolder folder_;
  std::unique_ptr<Store> store_ = make_store(GetParam(), clock_, folder_);
  Server server_;

 private:
  /// Knows which route a path belongs to, for the record.
  class Routes {
   public:
    explicit Routes(const ServerOptions& options) : under_test_(options, {{"x", store_}}, clock_) {}

    void record(const TestCall& call, const Response& response) const {
      const std::string path = call.target.substr(0, call.target.find('?'));
      const auto found = under_test_.router().find(call.method, path);
      const auto* match = std::get_if<Match>(&found);
      if (match == nullptr) return;
      std::string type;
      for (const TestField& field : call.fields) {
        if (same_name(field.name, "Content-Type")) type = field.value;
      }
      record_exchange({.method = to_string(call.method),
                       .route = match->route->pattern,
                       .path = path,
                       .request_type = type,
                       .request_body = call.body,
                       .status = response.status,
                       .response_type = response.content_type,
                       .response_body = response.body});
    }

   private:
    SystemClock clock_;
    memory::MemoryStore store_;
    ApiUnderTest under_test_;
  };

  Routes routes_;
  std::optional<HttpClient> client_;
};
ONCEBOX_OVER_EACH_STORE(OverHttp);

std::string key_json(const std::string& key, const std::string& more = "") {
  return R"({"key":)" + json::serialize(json::value(json::string_view(key))) + more + "}";
}

TEST_P(OverHttp, TheInboxContractFromBeginToProcessed) {
  RecordProperty("requirement", "KIN-03,KIN-04,KIN-06");
  const json::value begun =
      ask(post("/v1/inbox/try-begin", key_json("k", R"(,"owner":"me","leaseSeconds":30)")));
  EXPECT_EQ(begun.at("status"), "Acquired");
  EXPECT_EQ(ask(post("/v1/inbox/try-begin", key_json("k"))).at("status"), "Busy");
  EXPECT_EQ(ask(get("/v1/inbox/k")).at("status"), "InProgress");
  const std::string lease = begun.at("leaseId").as_string().c_str();
  EXPECT_EQ(ask(post("/v1/inbox/mark-processed", key_json("k", R"(,"leaseId":")" + lease + R"(")")))
                .at("status"),
            "Processed");
  EXPECT_EQ(ask(post("/v1/inbox/try-begin", key_json("k"))).at("status"), "Processed");
}

TEST_P(OverHttp, ClientsOfTheOlderShapeMarkWithoutALease) {
  RecordProperty("requirement", "KIN-04");
  EXPECT_EQ(ask(get("/v1/inbox/old")).at("status"), "Unknown");
  EXPECT_EQ(ask(post("/v1/inbox/mark-processed", key_json("old"))).at("status"), "Processed");
  EXPECT_EQ(ask(post("/v1/inbox/mark-processed", key_json("old"))).at("status"), "Processed");
  EXPECT_EQ(ask(get("/v1/inbox/old")).at("status"), "Processed");
}

TEST_P(OverHttp, AReleasedKeyIsFreeAgain) {
  RecordProperty("requirement", "KIN-05");
  const json::value begun = ask(post("/v1/inbox/try-begin", key_json("k")));
  const std::string lease = begun.at("leaseId").as_string().c_str();
  const TestCall release =
      post("/v1/inbox/release", key_json("k", R"(,"leaseId":")" + lease + R"(")"));
  EXPECT_EQ(ask(release).at("status"), "Released");
  EXPECT_EQ(ask(post("/v1/inbox/try-begin", key_json("k"))).at("status"), "Acquired");
  EXPECT_EQ(ask(release).at("status"), "LeaseLost");
}

TEST_P(OverHttp, KeysOfAnyTextArriveAsTheyWereSent) {
  RecordProperty("requirement", "KIN-06");
  for (const std::string key : {"bus:group:alias:7", "a/b/c", " spaces ", "ünïcödé", "日本", "a%b",
                                "a+b", "try-begin", "?#&="}) {
    EXPECT_EQ(ask(post("/v1/inbox/try-begin", key_json(key))).at("status"), "Acquired") << key;
    EXPECT_EQ(ask(get("/v1/inbox/" + wire::percent_encode(key))).at("attempts"), 1) << key;
  }
  EXPECT_EQ(ask(get("/v1/inbox/a/b/c")).at("attempts"), 1);
  EXPECT_EQ(ask(get("/v1/inbox/bus:group:alias:7")).at("attempts"), 1);
}

TEST_P(OverHttp, OnlyMalformedRequestsAreErrors) {
  RecordProperty("requirement", "KIN-07");
  const Response bad = call(post("/v1/inbox/try-begin", R"({"key":"k","leaseSeconds":301})"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(bad.content_type, "application/problem+json");
  EXPECT_EQ(call(post("/v1/inbox/try-begin", "{")).status, 400);
  TestCall text = post("/v1/inbox/try-begin", key_json("k"));
  text.fields = {{"Content-Type", "text/plain"}};
  EXPECT_EQ(call(text).status, 415);
  EXPECT_EQ(call({.method = Method::delete_, .target = "/v1/inbox/k", .fields = {}}).status, 405);
}

TEST_P(OverHttp, AMessageFromPostToDone) {
  EXPECT_EQ(ask(post("/v1/messages",
                     R"({"source":"shop","messageId":"1","topic":"order","payload":{"a": 1.0}})"))
                .at("status"),
            "Accepted");
  const Response claimed = call(post("/v1/messages/claim", R"({"limit":1})"));
  EXPECT_NE(claimed.body.find(R"({"a": 1.0})"), std::string::npos) << "as it was sent";
  const json::value claim = json_of(claimed);
  const std::string owner = claim.at("owner").as_string().c_str();
  EXPECT_EQ(ask(post("/v1/messages/settle",
                     R"({"items":[{"source":"shop","messageId":"1","verdict":"Ack","owner":")" +
                         owner + R"("}]})"))
                .at("results")
                .at(0),
            "Settled");
  EXPECT_EQ(ask(get("/v1/messages/shop/1")).at("status"), "Done");
}

TEST_P(OverHttp, ADeadLetterAndItsRevival) {
  ask(post("/v1/messages", R"({"source":"shop","messageId":"1","topic":"order"})"));
  const json::value claim = ask(post("/v1/messages/claim", "{}"));
  const std::string owner = claim.at("owner").as_string().c_str();
  ask(post("/v1/messages/settle",
           R"({"items":[{"source":"shop","messageId":"1","verdict":"Fail","error":"no","owner":")" +
               owner + R"("}]})"));
  EXPECT_EQ(ask(get("/v1/dead")).at("messages").as_array().size(), 1U);
  EXPECT_EQ(ask(post("/v1/dead/revive", R"({"all":true,"reason":"fixed"})")).at("count"), 1);
  EXPECT_EQ(ask(post("/v1/messages/claim", "{}")).at("messages").as_array().size(), 1U);
}

TEST_P(OverHttp, AWaitingClaimIsWokenByAnotherClient) {
  HttpClient worker(server_.port());
  worker.begin(post("/v1/messages/claim", R"({"waitSeconds":60})"));
  ask(post("/v1/messages", R"({"topic":"order"})"));
  EXPECT_EQ(json_of(worker.finish()).at("messages").as_array().size(), 1U);
}

TEST_P(OverHttp, AWaitingClaimWhoseConnectionIsClosedTakesNothing) {
  {
    HttpClient gone(server_.port());
    gone.begin(post("/v1/messages/claim", R"({"waitSeconds":60})"));
    EXPECT_TRUE(eventually([&] { return waiting() == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return waiting() == 0; }));
  ask(post("/v1/messages", R"({"source":"s","messageId":"m","topic":"order"})"));
  const json::value claim = ask(post("/v1/messages/claim", "{}"));
  EXPECT_EQ(claim.at("messages").at(0).at("deliveries"), 1);
}

TEST_P(OverHttp, NdjsonIsStreamedInChunks) {
  HttpClient sender(server_.port());
  TestCall stream{.target = "/v1/messages", .fields = {{"Content-Type", "application/x-ndjson"}}};
  sender.begin_chunked(stream);
  constexpr int kLines = 3'000;
  std::string text;
  for (int i = 0; i < kLines; ++i) {
    text += R"({"source":"s","messageId":")" + std::to_string(i) + R"(","topic":"t"})" + "\n";
  }
  for (std::string_view rest = text; !rest.empty();
       rest.remove_prefix(std::min<std::size_t>(7'777, rest.size()))) {
    sender.send_chunk(rest.substr(0, 7'777));
  }
  sender.end_chunks();
  const Response response = sender.finish();
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json_of(response).at("accepted"), kLines);
  // The same with a known length, on the connection that goes on.
  stream.body = text;
  EXPECT_EQ(json_of(call(sender, stream)).at("duplicate"), kLines);
  stream.body.clear();
  EXPECT_EQ(json_of(call(sender, stream)).at("received"), 0);
}

TEST_P(OverHttp, EventsAreStreamed) {
  HttpClient listener(server_.port());
  listener.begin(get("/v1/events"));
  EXPECT_NE(listener.read_until("event: stats").find("text/event-stream"), std::string::npos);
  ask(post("/v1/messages", R"({"topic":"order"})"));
  listener.read_until(R"({"store":"main","queue":"inbox"})");
}

TEST_P(OverHttp, DrainingAnswersAWaitingClaim) {
  HttpClient worker(server_.port());
  worker.begin(post("/v1/messages/claim", R"({"waitSeconds":60})"));
  EXPECT_TRUE(eventually([&] { return waiting() == 1; }));
  DrainResult drained;
  std::jthread stopping([&] { drained = server_.stop(kPatience); });
  EXPECT_TRUE(json_of(worker.finish()).at("messages").as_array().empty());
  stopping.join();
  EXPECT_TRUE(drained.complete());
}

TEST_P(OverHttp, ManyConnectionsShareTheStore) {
  constexpr int kClients = 16;
  constexpr int kEach = 50;
  std::vector<std::jthread> senders;
  std::atomic<int> accepted = 0;
  for (int sender = 0; sender < kClients; ++sender) {
    senders.emplace_back([&, sender] {
      HttpClient client(server_.port());
      for (int i = 0; i < kEach; ++i) {
        const std::string id = std::to_string(sender) + "-" + std::to_string(i);
        const Response one = client.call(
            post("/v1/messages", R"({"source":"s","messageId":")" + id + R"(","topic":"t"})"));
        const Response begun = client.call(post("/v1/inbox/try-begin", key_json(id)));
        if (one.status == 200 && begun.status == 200) ++accepted;
      }
    });
  }
  senders.clear();
  EXPECT_EQ(accepted, kClients * kEach);
  EXPECT_EQ(ask(post("/v1/messages/count", "")).at("count"), kClients * kEach);
}

TEST(OverHttpEnding, ACallThatOutlivesItsServersPatienceDoesNoHarm) {
  const SystemClock clock;
  NullLogger logger;
  std::promise<void> open;
  std::promise<void> held;
  const auto gate = open.get_future().share();
  FaultyStore store(clock, [&](std::string_view call) {
    if (call == "find") {
      held.set_value();
      gate.wait();
    }
    return testing::Fault::none;
  });
  auto server = std::make_unique<Server>(http_options(), std::vector<NamedStore>{{"main", store}},
                                         logger, clock);
  server->start();
  HttpClient client(server->port());
  client.begin(get("/v1/messages/s/m"));
  held.get_future().wait();
  EXPECT_EQ(server->stop(Duration{1}).unanswered, 1U);
  EXPECT_THROW((void)client.finish(), std::runtime_error);
  std::jthread ending([&] { server.reset(); });
  open.set_value();
}

}  // namespace

}  // namespace oncebox::server
