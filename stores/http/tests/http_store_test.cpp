// What goes over the wire, and what becomes of the answers, against a server that does as it is
// told.
#include "oncebox/http/http_store.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <future>
#include <thread>

#include "expect_error.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::http {
namespace {

using testing::dead_url;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;

using namespace std::chrono_literals;
using Kind = Reaction::Kind;

const OwnerToken kOwner = OwnerToken::parse("0190a0b0-0000-7000-8000-000000000001");
const LeaseId kLease = LeaseId::parse("0190a0b0-0000-7000-8000-000000000002");
const MessageKey kKey{"shop", "a"};
constexpr std::string_view kEmptyClaim =
    R"({"owner":"0190a0b0-0000-7000-8000-000000000001","messages":[]})";
constexpr std::string_view kAccepted =
    R"({"results":[{"source":"shop","messageId":"a","status":"Accepted"}]})";
constexpr std::string_view kNotFound = R"({"results":[null]})";

Reaction answer(std::string_view body, int status = 200) {
  return {.status = status, .body = std::string(body)};
}

Reaction problem(int status, std::string_view code) {
  return answer(R"({"code":")" + std::string(code) + R"(","detail":"as told"})", status);
}

/// A server that reacts in this order, and then always as at the end.
ScriptedServer::Script in_order(std::deque<Reaction> reactions) {
  return [reactions](const ReceivedRequest&) mutable {
    const Reaction next = reactions.front();
    if (reactions.size() > 1) reactions.pop_front();
    return next;
  };
}

Options options_for(const ScriptedServer& server) {
  return {.url = server.url(), .connect_timeout = 60s, .call_timeout = 60s, .retry_pause = 1ms};
}

Message message() { return {.key = kKey, .topic = "t"}; }

// What is sent -----------------------------------------------------------------------------------

/// Makes one call, whatever becomes of it, and answers what the server got.
ReceivedRequest sent_by(const std::function<void(Store&)>& call, const std::string& store = {}) {
  ScriptedServer server(in_order({problem(400, "invalid_argument")}));
  Options options = options_for(server);
  options.store = store;
  HttpStore http_store(options);
  expect_error(ErrorCode::invalid_argument, [&] { call(http_store); });
  const std::vector<ReceivedRequest> requests = server.requests();
  EXPECT_EQ(requests.size(), 1U);
  return requests.empty() ? ReceivedRequest{} : requests.front();
}

std::string stats_page(const std::string& topic, const std::string& next = {}) {
  const std::string counts =
      R"("seen":0,"waiting":0,"waitingFor":{"content":0,"partition":0,"due":0,"backoff":0,)"
      R"("pause":0},"ready":1,"leased":0,"done":0,"dead":0})";
  return R"({"total":{)" + counts + R"(,"topics":[{"topic":")" + topic + "\"," + counts + "]" +
         (next.empty() ? "" : R"(,"next":")" + next + "\"") + "}";
}

TEST(HttpStoreRequests, StatisticsOfManyTopicsAreFetchedPageByPage) {
  ScriptedServer server(in_order({answer(stats_page("a", "OmE=")), answer(stats_page("b"))}));
  HttpStore store(options_for(server));
  const QueueStats stats = store.inbox_operator().stats();
  ASSERT_EQ(stats.topics.size(), 2U);
  EXPECT_EQ(stats.topics.at(1).topic, Topic("b"));
  EXPECT_EQ(stats.total().ready, 2U);
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_EQ(server.requests().at(1).target, "/v1/stats?after=OmE%3D&limit=10000");
}

TEST(HttpStoreRequests, AServerThatRepeatsAPageOfStatisticsDoesNotHoldUpTheCaller) {
  ScriptedServer server(in_order({answer(stats_page("a", "OmE="))}));
  HttpStore store(options_for(server));
  EXPECT_EQ(store.inbox_operator().stats().topics.size(), 1U);
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST(HttpStoreRequests, EveryCallHasItsRoute) {
  struct Expected {
    std::string route;
    std::function<void(Store&)> call;
  };
  const std::vector<MessageKey> keys = {kKey};
  const std::vector<EditedMessage> edits = {{kKey, "x"}};
  const std::vector<Expected> all = {
      {"POST /v1/messages?missingHash=Leave&missingHeaders=Leave&onHashMismatch=Warn&onDead=Keep",
       [](Store& store) { store.inbox().enqueue(message()); }},
      {"POST "
       "/v1/outbox/"
       "messages?missingHash=Leave&missingHeaders=Leave&onHashMismatch=Quarantine&onDead=Revive",
       [](Store& store) {
         store.outbox().enqueue(message(), {.on_hash_mismatch = HashMismatchPolicy::quarantine,
                                            .on_dead = DeadPolicy::revive});
       }},
      {"POST "
       "/v1/messages?missingHash=Leave&missingHeaders=Leave&onHashMismatch=KeepFirst&onDead=Keep",
       [](Store& store) {
         store.inbox().enqueue(message(), {.on_hash_mismatch = HashMismatchPolicy::keep_first});
       }},
      {"POST /v1/messages/observe", [](Store& store) { store.inbox().observe({.key = kKey}); }},
      {"POST /v1/messages/mark", [](Store& store) { store.inbox().mark({.key = kKey}); }},
      {"POST /v1/outbox/messages/claim",
       [](Store& store) { (void)store.outbox().claim({.owner = kOwner}); }},
      {"POST /v1/messages/settle",
       [](Store& store) { store.inbox().settle({.delivery = {kKey, kOwner, {}}}); }},
      {"POST /v1/messages/extend",
       [](Store& store) { store.inbox().extend({.delivery = {kKey, kOwner, {}}}); }},
      {"POST /v1/messages/reap", [](Store& store) { store.inbox().reap(); }},
      {"POST /v1/messages/next-due", [](Store& store) { (void)store.inbox().next_due(); }},
      {"POST /v1/messages/find", [](Store& store) { (void)store.inbox().find(kKey); }},
      {"GET /v1/messages?order=OldestFirst&payloads=false&limit=100",
       [](Store& store) { (void)store.inbox_operator().list({}); }},
      {"POST /v1/messages/count", [](Store& store) { (void)store.inbox_operator().count({}); }},
      {"GET /v1/outbox/stats?limit=10000",
       [](Store& store) { (void)store.outbox_operator().stats(); }},
      {"POST /v1/dead/revive", [&](Store& store) { store.inbox_operator().revive(keys); }},
      {"POST /v1/outbox/dead/revive",
       [](Store& store) { store.outbox_operator().revive_matching({}, {}, 1); }},
      {"POST /v1/dead/purge", [&](Store& store) { store.inbox_operator().purge(keys); }},
      {"POST /v1/dead/purge", [](Store& store) { store.inbox_operator().purge_matching({}, 1); }},
      {"POST /v1/messages/cancel",
       [&](Store& store) { store.inbox_operator().act(keys, Cancel{}); }},
      {"POST /v1/messages/run-now",
       [&](Store& store) { store.inbox_operator().act(keys, RunNow{}); }},
      {"POST /v1/outbox/messages/reschedule",
       [](Store& store) { store.outbox_operator().act_matching({}, Reschedule{}, 1); }},
      {"POST /v1/messages/delete",
       [](Store& store) { store.inbox_operator().act_matching({}, Delete{}, 1); }},
      {"POST /v1/cleanup", [](Store& store) { store.inbox_operator().cleanup(); }},
      {"POST /v1/outbox/dead/edit",
       [&](Store& store) { store.outbox_operator().revive_edited(edits); }},
      {"GET /v1/dead/a%2Fb/1/history",
       [](Store& store) { (void)store.inbox_operator().past_contents({"a/b", "1"}); }},
      {"GET /v1/audit?limit=100", [](Store& store) { (void)store.audit().list(); }},
      {"POST /v1/audit/cleanup", [](Store& store) { store.audit().cleanup(); }},
      {"POST /v1/keys/begin", [](Store& store) { store.keys().begin({.key = "k"}); }},
      {"POST /v1/keys/complete", [](Store& store) { store.keys().mark_processed("k"); }},
      {"POST /v1/keys/fail", [](Store& store) { store.keys().fail({"k", kLease, "no"}); }},
      {"POST /v1/keys/release", [](Store& store) { store.keys().release({"k", kLease}); }},
      {"POST /v1/keys/extend", [](Store& store) { store.keys().extend({"k", kLease}); }},
      {"POST /v1/keys/find", [](Store& store) { (void)store.keys().is_processed("k"); }},
      {"POST /v1/keys/cleanup", [](Store& store) { store.keys().cleanup(5); }},
      {"GET /v1/stores", [](Store& store) { store.migrate(); }},
  };
  for (const Expected& expected : all) {
    const ReceivedRequest request = sent_by(expected.call);
    EXPECT_EQ(request.method + " " + request.target, expected.route);
  }
}

TEST(HttpStoreRequests, AStoreWithANameHasItInThePath) {
  EXPECT_EQ(sent_by([](Store& store) { store.outbox().mark({.key = kKey}); }, "e u").target,
            "/v1/stores/e%20u/outbox/messages/mark");
  EXPECT_EQ(sent_by([](Store& store) { store.keys().begin({.key = "k"}); }, "eu").target,
            "/v1/stores/eu/keys/begin");
}

TEST(HttpStoreRequests, ABodyIsJson) {
  const ReceivedRequest request =
      sent_by([](Store& store) { store.keys().release({"k", kLease}); });
  EXPECT_EQ(request.fields.at("content-type"), "application/json");
  EXPECT_EQ(request.body,
            R"({"items":[{"key":"k","leaseId":"0190a0b0-0000-7000-8000-000000000002"}]})");
  EXPECT_FALSE(request.fields.contains("authorization"));
  EXPECT_FALSE(request.fields.contains("expect"));
}

TEST(HttpStoreRequests, APathBeforeTheApiIsKept) {
  ScriptedServer server(in_order({answer(kNotFound)}));
  Options options = options_for(server);
  options.url += "/behind/proxy/";
  HttpStore store(options);
  EXPECT_EQ(store.inbox().find(kKey), std::nullopt);
  EXPECT_EQ(server.requests().at(0).target, "/behind/proxy/v1/messages/find");
}

TEST(HttpStoreRequests, APayloadAboveTheOwnLimitIsNotSent) {
  ScriptedServer server(in_order({answer(kAccepted)}));
  Options options = options_for(server);
  options.max_payload_bytes = 3;
  HttpStore store(options);
  Message large = message();
  large.payload = "1234";
  expect_error(ErrorCode::invalid_argument, [&] { store.inbox().enqueue(large); });
  EXPECT_TRUE(server.requests().empty());
  large.payload = "123";
  EXPECT_EQ(store.inbox().enqueue(large).status, EnqueueStatus::accepted);
}

TEST(HttpStoreRequests, ConnectionsAreKept) {
  ScriptedServer server(in_order({answer(kNotFound)}));
  HttpStore store(options_for(server));
  for (int call = 0; call < 20; ++call) (void)store.inbox().find(kKey);
  EXPECT_EQ(server.connections(), 1U);
}

// Tokens -----------------------------------------------------------------------------------------

TEST(HttpStoreTokens, ATokenGoesWithEveryRequest) {
  ScriptedServer server(in_order({answer(kNotFound)}));
  Options options = options_for(server);
  options.token = "secret";
  HttpStore store(options);
  (void)store.inbox().find(kKey);
  EXPECT_EQ(server.requests().at(0).fields.at("authorization"), "Bearer secret");
}

class TokenFile {
 public:
  void write(const std::string& content) { std::ofstream(path()) << content; }
  [[nodiscard]] std::filesystem::path path() const { return folder_.file("token"); }

 private:
  testing::TemporaryFolder folder_;
};

TEST(HttpStoreTokens, ATokenFileIsReadAgainWhenItsTokenIsRefused) {
  TokenFile file;
  file.write("old\n");
  ScriptedServer server([](const ReceivedRequest& request) {
    const bool is_new = request.fields.at("authorization") == "Bearer new";
    return is_new ? answer(kEmptyClaim) : problem(401, "unauthorized");
  });
  Options options = options_for(server);
  options.token_file = file.path();
  HttpStore store(options);
  const auto claim = [&] { return store.inbox().claim({.owner = kOwner}); };
  EXPECT_EQ(expect_error(ErrorCode::invalid_argument, [&] { (void)claim(); }),
            "unauthorized: as told");
  EXPECT_EQ(server.requests().size(), 1U) << "the same token is not tried twice";
  file.write(" new \n");
  EXPECT_TRUE(claim().empty());
}

TEST(HttpStoreTokens, AFileThatCannotBeReadOrHoldsNoTokenIsRefused) {
  TokenFile file;
  Options options{.url = "http://127.0.0.1:1", .token_file = file.path()};
  expect_error(ErrorCode::not_found, [&] { HttpStore store(options); });
  file.write("two words");
  expect_error(ErrorCode::invalid_argument, [&] { HttpStore store(options); });
  options = {.url = "http://127.0.0.1:1", .token = "line\nbreak"};
  const std::string text =
      expect_error(ErrorCode::invalid_argument, [&] { HttpStore store(options); });
  EXPECT_EQ(text.find("break"), std::string::npos);
}

// Failures ---------------------------------------------------------------------------------------

struct Outcome {
  std::optional<ErrorCode> error;
  std::size_t requests = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
  friend void PrintTo(const Outcome& outcome, std::ostream* out) {
    *out << (outcome.error ? to_string(*outcome.error) : "no error") << " after "
         << outcome.requests << " requests";
  }
};

Outcome outcome_of(std::deque<Reaction> reactions, const std::function<void(Store&)>& call,
                   const std::function<void(Options&)>& change = {}) {
  ScriptedServer server(in_order(std::move(reactions)));
  Options options = options_for(server);
  if (change) change(options);
  HttpStore store(options);
  Outcome outcome;
  try {
    call(store);
  } catch (const Error& error) {
    outcome.error = error.code();
  }
  outcome.requests = server.requests().size();
  return outcome;
}

void find(Store& store) { (void)store.inbox().find(kKey); }
void claim(Store& store) { (void)store.inbox().claim({.owner = kOwner}); }
void enqueue(Store& store) { store.inbox().enqueue(message()); }

TEST(HttpStoreFailures, AServiceThatIsNotThereIsUnavailable) {
  Options options{.url = dead_url(), .retry_pause = 1ms};
  HttpStore store(options);
  for (const auto& call : {find, claim, enqueue}) {
    const std::string text = expect_error(ErrorCode::unavailable, [&] { call(store); });
    EXPECT_NE(text.find(options.url), std::string::npos) << text;
  }
}

TEST(HttpStoreFailures, WhatReadsIsRepeatedWhenTheConnectionBreaks) {
  EXPECT_EQ(outcome_of({{.kind = Kind::hang_up}, {.kind = Kind::cut_off}, answer(kNotFound)}, find),
            (Outcome{std::nullopt, 3}));
  EXPECT_EQ(outcome_of({{.kind = Kind::hang_up}}, find), (Outcome{ErrorCode::unavailable, 3}));
}

TEST(HttpStoreFailures, WhatHasTheSameEffectTwiceIsRepeatedToo) {
  const std::vector<std::pair<std::string, std::function<void(Store&)>>> calls = {
      {std::string(kAccepted), enqueue},
      {R"({"results":["Marked"]})", [](Store& store) { store.inbox().mark({.key = kKey}); }},
      {R"({"results":[{}]})",
       [](Store& store) { store.inbox().extend({.delivery = {kKey, kOwner, {}}}); }},
      {R"({"results":[{"status":"Processed"}]})",
       [](Store& store) { store.keys().mark_processed("k"); }},
      {R"({"results":[{"status":"Failed"}]})",
       [](Store& store) { store.keys().fail({"k", kLease, "no"}); }},
      {R"({"results":[{"status":"Released"}]})",
       [](Store& store) { store.keys().release({"k", kLease}); }},
      {R"({"results":[{}]})", [](Store& store) { store.keys().extend({"k", kLease}); }},
  };
  for (const auto& [body, call] : calls) {
    EXPECT_EQ(
        outcome_of({{.kind = Kind::hang_up}, problem(502, "outcome_unknown"), answer(body)}, call),
        (Outcome{std::nullopt, 3}))
        << body;
    EXPECT_EQ(outcome_of({{.kind = Kind::hang_up}}, call), (Outcome{ErrorCode::outcome_unknown, 3}))
        << body;
  }
}

TEST(HttpStoreFailures, NothingElseIsRepeatedOnceItWasSent) {
  const std::vector<MessageKey> keys = {kKey};
  const std::vector<EditedMessage> edits = {{kKey, "x"}};
  const std::vector<std::function<void(Store&)>> calls = {
      claim,
      [](Store& store) { store.inbox().observe({.key = kKey}); },
      [](Store& store) { store.inbox().mark({.key = kKey, .as = MarkAs::processing}); },
      [](Store& store) { store.inbox().settle({.delivery = {kKey, kOwner, {}}}); },
      [](Store& store) { store.inbox().reap(); },
      [](Store& store) { store.keys().begin({.key = "k"}); },
      [](Store& store) { store.keys().cleanup(1); },
      [&](Store& store) { store.inbox_operator().revive(keys); },
      [](Store& store) { store.inbox_operator().revive_matching({}, {}, 1); },
      [&](Store& store) { store.inbox_operator().purge(keys); },
      [](Store& store) { store.inbox_operator().purge_matching({}, 1); },
      [&](Store& store) { store.inbox_operator().act(keys, Cancel{}); },
      [](Store& store) { store.inbox_operator().act_matching({}, Delete{}, 1); },
      [](Store& store) { store.inbox_operator().cleanup(); },
      [&](Store& store) { store.inbox_operator().revive_edited(edits); },
      [](Store& store) { store.audit().cleanup(); },
  };
  for (std::size_t place = 0; place < calls.size(); ++place) {
    for (const Reaction& reaction :
         {Reaction{.kind = Kind::hang_up}, Reaction{.kind = Kind::cut_off},
          problem(502, "outcome_unknown"), answer("<html>", 502), answer("<html>", 503),
          answer("no JSON")}) {
      EXPECT_EQ(outcome_of({reaction}, calls[place]), (Outcome{ErrorCode::outcome_unknown, 1}))
          << place << " " << reaction.status << " " << reaction.body;
    }
  }
}

TEST(HttpStoreFailures, AKeptConnectionThatIsClosedUnderAClaimDoesNotRepeatIt) {
  // libcurl itself would send it again.
  EXPECT_EQ(outcome_of({answer(kEmptyClaim), {.kind = Kind::hang_up}, answer(kEmptyClaim)},
                       [](Store& store) {
                         claim(store);
                         claim(store);
                       }),
            (Outcome{ErrorCode::outcome_unknown, 2}));
}

TEST(HttpStoreFailures, WhatWasSentIsInDoubtAlsoWhenItsRepetitionFindsNobody) {
  // libcurl itself would send it again, and cannot connect. That this changed nothing says nothing
  // of the first time, when the service got it whole.
  const std::vector<std::pair<std::string_view, std::function<void(Store&)>>> calls = {
      {kAccepted, enqueue}, {kEmptyClaim, claim}};
  for (const auto& [body, call] : calls) {
    for (const int max_retries : {0, 2}) {
      ScriptedServer server(in_order({answer(body), {.kind = Kind::hang_up_for_good}}));
      Options options = options_for(server);
      options.max_retries = max_retries;
      HttpStore store(options);
      call(store);
      const std::string text = expect_error(ErrorCode::outcome_unknown, [&] { call(store); });
      EXPECT_NE(text.find("connect to"), std::string::npos) << text;
      EXPECT_EQ(server.requests().size(), 2U);
    }
  }
}

TEST(HttpStoreFailures, AKeptConnectionThatWasClosedMeanwhileIsNotUsed) {
  ScriptedServer server(in_order({answer(kEmptyClaim)}));
  HttpStore store(options_for(server));
  claim(store);
  server.cut_all();
  EXPECT_NO_THROW(claim(store));
  EXPECT_EQ(server.connections(), 2U);
}

TEST(HttpStoreFailures, WhatTheServiceDidNotDoIsRepeatedWhateverItIs) {
  for (const Reaction& reaction : {problem(503, "overloaded"), problem(503, "unavailable"),
                                   problem(504, "timeout"), answer("try later", 429)}) {
    EXPECT_EQ(outcome_of({reaction, reaction, answer(kEmptyClaim)}, claim),
              (Outcome{std::nullopt, 3}));
  }
  EXPECT_EQ(outcome_of({problem(503, "overloaded")}, claim), (Outcome{ErrorCode::overloaded, 3}));
}

TEST(HttpStoreFailures, ALaterTryThatChangedNothingDoesNotHideAnEarlierOneThatMayHave) {
  EXPECT_EQ(outcome_of({{.kind = Kind::hang_up}, problem(503, "overloaded")}, enqueue),
            (Outcome{ErrorCode::outcome_unknown, 3}));
}

TEST(HttpStoreFailures, WithoutRetriesThereIsOneTry) {
  const auto no_retries = [](Options& options) { options.max_retries = 0; };
  EXPECT_EQ(outcome_of({problem(503, "overloaded")}, claim, no_retries),
            (Outcome{ErrorCode::overloaded, 1}));
  EXPECT_EQ(outcome_of({{.kind = Kind::hang_up}}, enqueue, no_retries),
            (Outcome{ErrorCode::outcome_unknown, 1}));
}

TEST(HttpStoreFailures, ARefusalIsFinal) {
  for (const auto& [reaction, code] : std::vector<std::pair<Reaction, ErrorCode>>{
           {problem(400, "out_of_range"), ErrorCode::out_of_range},
           {problem(404, "not_found"), ErrorCode::not_found},
           {problem(409, "conflict"), ErrorCode::conflict},
           {problem(403, "forbidden"), ErrorCode::invalid_argument},
           {problem(413, "too_large"), ErrorCode::invalid_argument},
           {problem(500, "corrupt"), ErrorCode::corrupt},
           {answer("", 302), ErrorCode::internal}}) {
    EXPECT_EQ(outcome_of({reaction}, enqueue), (Outcome{code, 1}));
  }
}

TEST(HttpStoreFailures, AServiceThatDoesNotAnswerInTimeIsATimeoutForWhatReads) {
  const auto outcome_when_sent = [](const std::function<void(Store&)>& call) {
    Outcome outcome;
    // On a busy machine the time may be over before anything was sent.
    while (outcome.requests == 0) {
      outcome = outcome_of({{.kind = Kind::hang}}, call,
                           [](Options& options) { options.call_timeout = 200ms; });
    }
    return outcome;
  };
  EXPECT_EQ(outcome_when_sent(find), (Outcome{ErrorCode::timeout, 1}));
  EXPECT_EQ(outcome_when_sent(claim), (Outcome{ErrorCode::outcome_unknown, 1}));
}

TEST(HttpStoreFailures, AnAnswerThatIsNotOneForEachItemIsNotBelieved) {
  EXPECT_EQ(outcome_of({answer(R"({"results":[]})")}, enqueue),
            (Outcome{ErrorCode::outcome_unknown, 1}));
  EXPECT_EQ(outcome_of({answer(R"({"results":[null,null]})")}, find),
            (Outcome{ErrorCode::internal, 1}));
}

TEST(HttpStoreFailures, CallsBeyondTheConnectionsWaitForOne) {
  std::promise<void> first_came;
  std::promise<void> go_on;
  std::atomic<int> count = 0;
  ScriptedServer server([&](const ReceivedRequest&) {
    if (count++ == 0) {
      first_came.set_value();
      go_on.get_future().wait();
    }
    return answer(kNotFound);
  });
  Options options = options_for(server);
  options.max_connections = 1;
  HttpStore store(options);
  auto first = std::async(std::launch::async, [&] { find(store); });
  first_came.get_future().wait();
  auto second = std::async(std::launch::async, [&] { find(store); });
  go_on.set_value();
  first.get();
  second.get();
  EXPECT_EQ(server.connections(), 1U);
}

TEST(HttpStoreFailures, ACallThatGetsNoConnectionInTimeHasChangedNothing) {
  ScriptedServer server(in_order({{.kind = Kind::hang}}));
  Options options = options_for(server);
  options.max_connections = 1;
  options.max_retries = 0;
  options.call_timeout = 50ms;
  options.connect_timeout = 60s;  // also how long a question for the health may take
  HttpStore store(options);
  auto holder = std::async(std::launch::async, [&] { return store.health(); });
  ASSERT_TRUE(server.wait_for_requests(1));
  expect_error(ErrorCode::timeout, [&] { claim(store); });
  server.cut_all();
  EXPECT_EQ(holder.get().status, HealthStatus::unavailable);
  EXPECT_EQ(server.requests().size(), 1U);
}

// What the service says about the store
// ------------------------------------------------------------

constexpr std::string_view kStores =
    R"({"stores":[{"name":"main","default":true,"health":"Healthy","capabilities":{"durable":true,)"
    R"("sharedBetweenProcesses":false,"joinsCallerTransaction":true,"notifies":true,)"
    R"("nativeTtl":true,"maxPayloadBytes":1000}},{"name":"eu","default":false,)"
    R"("health":"Degraded","detail":"slow","capabilities":{"maxPayloadBytes":5}}]})";

TEST(HttpStoreFacts, CapabilitiesAreThoseOfTheStoreBehindTheService) {
  ScriptedServer server(in_order({answer(kStores)}));
  HttpStore store(options_for(server));
  for (int time = 0; time < 2; ++time) {
    const Capabilities capabilities = store.capabilities();
    EXPECT_TRUE(capabilities.durable);
    EXPECT_TRUE(capabilities.shared_between_processes) << "several may reach the service";
    EXPECT_FALSE(capabilities.joins_caller_transaction) << "not over HTTP";
    EXPECT_TRUE(capabilities.notifies);
    EXPECT_TRUE(capabilities.native_ttl);
    EXPECT_EQ(capabilities.max_payload_bytes, 1000U);
  }
  EXPECT_EQ(server.requests().size(), 1U) << "they are asked for once";
}

TEST(HttpStoreFacts, AStoreIsFoundByItsName) {
  ScriptedServer server(in_order({answer(kStores)}));
  Options options = options_for(server);
  options.store = "eu";
  HttpStore store(options);
  EXPECT_EQ(store.capabilities().max_payload_bytes, 5U);
  EXPECT_EQ(store.health().status, HealthStatus::degraded);
  EXPECT_EQ(store.health().detail, "slow");
  EXPECT_EQ(store.migrate().to_version, 0);

  options.store = "us";
  HttpStore nowhere(options);
  expect_error(ErrorCode::not_found, [&] { (void)nowhere.capabilities(); });
  expect_error(ErrorCode::not_found, [&] { (void)nowhere.migrate(); });
  EXPECT_EQ(nowhere.health().status, HealthStatus::unavailable);
}

TEST(HttpStoreFacts, ATokenThatMayNotAskGetsWhatHoldsOfEveryService) {
  ScriptedServer server(in_order({problem(403, "forbidden")}));
  HttpStore store(options_for(server));
  EXPECT_EQ(store.capabilities().max_payload_bytes, std::size_t{16} << 20);
  EXPECT_FALSE(store.capabilities().notifies);
}

TEST(HttpStoreFacts, HealthDoesNotThrow) {
  HttpStore nobody(Options{.url = dead_url(), .retry_pause = 1ms});
  EXPECT_EQ(nobody.health().status, HealthStatus::unavailable);
  EXPECT_NE(nobody.health().detail, "");
  ScriptedServer server(in_order({answer("no JSON")}));
  HttpStore strange(options_for(server));
  EXPECT_EQ(strange.health().status, HealthStatus::unavailable);
}

// Options ----------------------------------------------------------------------------------------

TEST(HttpStoreOptions, WhatDoesNotFitIsRefused) {
  const std::string url = "http://127.0.0.1:1";
  for (const Options& options : {
           Options{.url = ""},
           Options{.url = "127.0.0.1:8080"},
           Options{.url = "ftp://127.0.0.1"},
           Options{.url = "http://"},
           Options{.url = "http:///path"},
           Options{.url = "http://me:secret@127.0.0.1"},
           Options{.url = url + "?x=1"},
           Options{.url = url + "#x"},
           Options{.url = url + " "},
           Options{.url = url, .token = "a", .token_file = "b"},
           Options{.url = url, .client_certificate = "a"},
           Options{.url = url, .client_key = "a"},
       }) {
    const std::string text =
        expect_error(ErrorCode::invalid_argument, [&] { HttpStore store(options); });
    EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  }
  for (const Options& options : {
           Options{.url = url, .connect_timeout = 0ms},
           Options{.url = url, .call_timeout = -1ms},
           Options{.url = url, .max_retries = -1},
           Options{.url = url, .max_retries = 11},
           Options{.url = url, .retry_pause = 0ms},
           Options{.url = url, .max_connections = 0},
       }) {
    expect_error(ErrorCode::out_of_range, [&] { HttpStore store(options); });
  }
}

}  // namespace
}  // namespace oncebox::http
