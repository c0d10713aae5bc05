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
      : server_(options, {{"main", *store_}}, {.logger = logger_, .clock = clock_}),
        routes_(options) {
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
    const std::string name = "\noncebox_waiting_claims{store=\"main\"} ";
    const std::size_t at = text.find(name);
    return at == text.npos ? 0 : std::stoi(text.substr(at + name.size()));
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
        if (equal_ignoring_case(field.name, "Content-Type")) type = field.value;
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
                .at(0)
                .at("status"),
            "Settled");
  EXPECT_EQ(ask(get("/v1/messages/shop/1")).at("status"), "Done");
}

TEST_P(OverHttp, ADeadLetterAndItsRevival) {
  ask(post("/v1/messages", R"({"source":"shop","messageId":"1","topic":"order","payload":""})"));
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
  ask(post("/v1/messages", R"({"topic":"order","payload":""})"));
  EXPECT_EQ(json_of(worker.finish()).at("messages").as_array().size(), 1U);
}

TEST_P(OverHttp, AWaitingClaimWhoseConnectionIsClosedTakesNothing) {
  {
    HttpClient gone(server_.port());
    gone.begin(post("/v1/messages/claim", R"({"waitSeconds":60})"));
    EXPECT_TRUE(eventually([&] { return waiting() == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return waiting() == 0; }));
  ask(post("/v1/messages", R"({"source":"s","messageId":"m","topic":"order","payload":""})"));
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
    text += R"({"source":"s","messageId":")" + std::to_string(i) +
            R"(","topic":"t","payload":""})" + "\n";
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
  ask(post("/v1/messages", R"({"topic":"order","payload":""})"));
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
        const Response one =
            client.call(post("/v1/messages", R"({"source":"s","messageId":")" + id +
                                                 R"(","topic":"t","payload":""})"));
        const Response begun = client.call(post("/v1/inbox/try-begin", key_json(id)));
        if (one.status == 200 && begun.status == 200) ++accepted;
      }
    });
  }
  senders.clear();
  EXPECT_EQ(accepted, kClients * kEach);
  EXPECT_EQ(ask(post("/v1/messages/count", "")).at("count"), kClients * kEach);
}

/// A server with one thread for a store that hangs: one call runs, and as many wait as may.
class OverHttpEnding : public ::testing::Test {
 protected:
  static constexpr int kWaiting = 5;

  static ServerOptions options() {
    ServerOptions few = http_options();
    few.call_threads = 1;
    few.max_queued_calls = 3 * kWaiting;  // one caller gets a third of them for one store
    return few;
  }

  OverHttpEnding() { server_->start(); }

  /// Makes a call in a thread of its own; its status is 0 when there is no answer.
  std::future<int> begin(const TestCall& call) {
    return std::async(std::launch::async, [this, call, port = server_->port()] {
      try {
        HttpClient client(port);
        const int status = client.call(call).status;
        if (status == 503) ++refused_;
        return status;
      } catch (const std::runtime_error&) {
        return 0;
      }
    });
  }
  /// Has one call run and the others wait. There is one too many, and once that is refused all
  /// have come.
  void fill() {
    running_ = begin(get("/v1/messages/s/m"));
    stuck_.wait_for_first_look();
    for (int i = 0; i <= kWaiting; ++i) {
      const std::string id = std::to_string(i);
      waiting_.push_back(begin(post("/v1/outbox/messages", R"([{"source":"s","messageId":")" + id +
                                                               R"(","topic":"t","payload":""}])")));
    }
    ASSERT_TRUE(eventually([this] { return refused_ == 1; }));
  }
  [[nodiscard]] static bool is_listening(std::uint16_t port) {
    try {
      const HttpClient client(port);
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }
  [[nodiscard]] bool is_stored(std::size_t place) {
    return stuck_.store().outbox().find(MessageKey{"s", std::to_string(place)}).has_value();
  }

  const SystemClock clock_;
  NullLogger logger_;
  StuckStore stuck_{clock_};
  std::unique_ptr<Server> server_ =
      std::make_unique<Server>(options(), std::vector<NamedStore>{{"main", stuck_.store()}},
                               Surroundings{.logger = logger_, .clock = clock_});
  std::atomic<int> refused_ = 0;
  std::future<int> running_;
  std::vector<std::future<int>> waiting_;
};

TEST_F(OverHttpEnding, CallsThatWaitAreAnsweredWithinTheDrain) {
  fill();
  DrainResult drained{.unanswered = 99};
  const std::uint16_t port = server_->port();
  std::jthread stopping([&] { drained = server_->stop(kPatience); });
  EXPECT_TRUE(eventually([&] { return !is_listening(port); })) << "it does not drain";
  stuck_.let_go();
  stopping.join();
  EXPECT_TRUE(drained.complete());
  EXPECT_EQ(running_.get(), 404);
  for (std::size_t place = 0; place < waiting_.size(); ++place) {
    const int status = waiting_[place].get();
    EXPECT_TRUE(status == 200 || status == 503) << status;
    EXPECT_EQ(is_stored(place), status == 200) << place;
  }
}

TEST_F(OverHttpEnding, CallsThatOutliveTheDrainAreCutOffAndDoNoHarm) {
  fill();
  EXPECT_EQ(server_->stop(Duration{1}).unanswered, kWaiting + 1U);
  EXPECT_EQ(running_.get(), 0);
  for (std::size_t place = 0; place < waiting_.size(); ++place) {
    const int status = waiting_[place].get();
    EXPECT_TRUE(status == 0 || status == 503) << status;
    EXPECT_FALSE(is_stored(place)) << place;
  }
  std::jthread ending([&] { server_.reset(); });
  stuck_.let_go();
}

}  // namespace

}  // namespace oncebox::server
