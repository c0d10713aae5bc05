#include "webhooks/webhooks.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "api/borrowed_stores.hpp"
#include "api/call_pool.hpp"
#include "http/answers.hpp"
#include "observe/metrics.hpp"
#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "test_exchange.hpp"

namespace oncebox::server {
namespace {

using namespace std::chrono_literals;

const std::string kSecret = "It's a Secret to Everybody";
const std::string kHello = "Hello, World!";
const std::string kHelloSignature =
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const std::string kHelloSha256 = "dffd6021bb2bd5b0af676290809ec3a53191dd81c7f70a4b28688a362182986f";

/// Answers a request as the server does, by the router.
Response ask(const Router& router, Request request) {
  auto found = router.find(request.method, request.path);
  Match& match = std::get<Match>(found);
  request.arguments = std::move(match.arguments);
  const auto exchange = std::make_shared<TestExchange>(std::move(request));
  try {
    match.route->handler(exchange);
  } catch (...) {
    exchange->send(failure_response(std::current_exception(), exchange->request()));
  }
  return exchange->wait();
}

struct Sent {
  std::string body;
  std::vector<Fields::Entry> fields = {};
};

class WebhooksTest : public ::testing::Test {
 protected:
  void configure(std::vector<WebhookOptions> webhooks) {
    stores_ = borrowed_set({{"main", main_}, {"second", second_}}, logger_);
    for (const MemberStorePtr& store : stores_->members()) {
      served_[store->name()] = std::make_shared<ServedStore>(store, parts_);
    }
    webhooks_ = std::make_unique<Webhooks>(
        webhooks,
        [this](std::string_view name) {
          stored_on_ = std::this_thread::get_id();
          const auto found = served_.find(name.empty() ? "main" : std::string(name));
          if (found != served_.end()) return found->second;
          throw Error(ErrorCode::not_found, "there is no store of this name");
        },
        calls_, metrics_, logger_, clock_);
    router_ = {};
    webhooks_->add_routes(router_);
  }

  /// The only webhook, "hook", of which nothing is checked.
  void configure_unchecked(const WebhookOptions& options) {
    WebhookOptions unchecked = options;
    unchecked.name = "hook";
    unchecked.scheme = WebhookScheme::none;
    configure({unchecked});
  }

  Response send(const Sent& sent, const std::string& name = "hook") {
    Request request{.method = Method::post,
                    .path = "/v1/webhooks/" + name,
                    .body = sent.body,
                    .peer = "192.0.2.1",
                    .id = "request-1"};
    for (const auto& [field, value] : sent.fields) request.fields.add(field, value);
    return ask(router_, std::move(request));
  }

  std::vector<MessageRecord> stored(Store& store) {
    return store.inbox_operator().list({.payloads = ListPayloads::include}).records;
  }

  /// The only message that is stored.
  Message only_message() {
    const auto records = stored(main_);
    EXPECT_EQ(records.size(), 1u);
    return records.at(0).message.value();
  }

  std::string configuration_error(const WebhookOptions& options) {
    try {
      configure({options});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  testing::FakeClock clock_;
  memory::MemoryStore main_{clock_};
  memory::MemoryStore second_{clock_};
  std::ostringstream log_;
  TextLogger logger_{log_, clock_, LogLevel::debug};
  Metrics metrics_;
  ServerOptions server_options_;
  CallPool calls_{1, 64};
  Timers timers_{clock_};
  const ApiParts parts_{server_options_, calls_, timers_, metrics_, logger_, clock_};
  std::unique_ptr<StoreSet> stores_;
  std::map<std::string, ServedStorePtr> served_;
  std::unique_ptr<Webhooks> webhooks_;
  Router router_;
  std::thread::id stored_on_;  ///< where the last one was checked and named
};

TEST_F(WebhooksTest, AGoodSignatureStoresTheRawBodyAndTellsSo) {
  configure({{.name = "github", .scheme = WebhookScheme::github, .secrets = {kSecret}}});
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const Response response = send({kHello,
                                  {{"X-Hub-Signature-256", kHelloSignature},
                                   {"X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"},
                                   {"X-GitHub-Event", "push"},
                                   {"Content-Type", "application/json"},
                                   {"traceparent", trace}}},
                                 "github");

  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.body.find(R"("status":"Accepted")"), std::string::npos) << response.body;
  const Message message = only_message();
  EXPECT_EQ(message.key, (MessageKey{"github", "72d3162e-cc78-11e3-81ab-4c9367dc0958"}));
  EXPECT_EQ(message.topic, "push");
  EXPECT_EQ(message.payload.bytes(), kHello);
  EXPECT_EQ(message.headers,
            (Headers{{"contentType", "application/json"}, {"traceparent", trace}}));
  ASSERT_TRUE(message.hash);
  EXPECT_EQ(message.hash->digest_hex(), kHelloSha256);
}

TEST_F(WebhooksTest, ALargeBodyIsNotCheckedOnAThreadOfTheSockets) {
  configure({{.name = "hook",
              .scheme = WebhookScheme::hmac,
              .secrets = {kSecret},
              .hmac = {.header = "X-Signature"},
              .topic = "{json:/type}"}});
  const auto body = [](std::size_t bytes) {
    return R"({"type":"order","text":")" + std::string(bytes, 'x') + "\"}";
  };
  const auto signature = [](const std::string& text) {
    return to_hex(HmacKey(kSecret, HmacAlgorithm::sha256).sign({text}));
  };
  const std::string small = body(1'000);
  EXPECT_EQ(send({small, {{"X-Signature", signature(small)}}}).status, 200);
  EXPECT_EQ(stored_on_, std::this_thread::get_id());

  const std::string large = body(std::size_t{1} << 20);
  EXPECT_EQ(send({large, {{"X-Signature", signature(large)}}}).status, 200);
  EXPECT_NE(stored_on_, std::this_thread::get_id());
  EXPECT_EQ(send({large, {{"X-Signature", signature(small)}}}).status, 401);
  const std::string nameless(std::size_t{1} << 20, 'x');
  EXPECT_EQ(send({nameless, {{"X-Signature", signature(nameless)}}}).status, 200)
      << "what the templates do not find is named otherwise";
  EXPECT_EQ(stored(main_).size(), 3U);
}

TEST_F(WebhooksTest, ADuplicateIsASuccessToo) {
  configure_unchecked({.message_id = "{header:X-Id}"});
  EXPECT_EQ(send({kHello, {{"X-Id", "1"}}}).status, 200);
  const Response again = send({kHello, {{"X-Id", "1"}}});
  EXPECT_EQ(again.status, 200);
  EXPECT_NE(again.body.find(R"("status":"Duplicate")"), std::string::npos) << again.body;
  EXPECT_EQ(stored(main_).size(), 1u);
}

TEST_F(WebhooksTest, ABadSignatureIsRefusedAndStoresNothing) {
  configure({{.name = "hook", .scheme = WebhookScheme::github, .secrets = {kSecret}}});
  const std::vector<Sent> requests = {
      {kHello, {}},
      {kHello, {{"X-Hub-Signature-256", "nonsense"}}},
      {"tampered", {{"X-Hub-Signature-256", kHelloSignature}}},
      {kHello, {{"X-Hub-Signature", kHelloSignature}}},
      {kHello, {{"X-Hub-Signature-256", "sha256=" + std::string(100'000, 'a')}}}};
  for (const Sent& sent : requests) {
    const Response response = send(sent);
    EXPECT_EQ(response.status, 401);
    EXPECT_EQ(response.content_type, "application/problem+json");
    EXPECT_NE(response.body.find(R"("code":"unauthorized")"), std::string::npos) << response.body;
    EXPECT_TRUE(response.fields.get("WWW-Authenticate"));
  }
  EXPECT_TRUE(stored(main_).empty());
}

TEST_F(WebhooksTest, AnOldSignatureIsRefusedByTheInjectedClock) {
  configure({{.name = "hook",
              .scheme = WebhookScheme::standard_webhooks,
              .secrets = {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}});
  const Sent sent = {R"({"test": 2432232314})",
                     {{"webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"},
                      {"webhook-timestamp", "1614265330"},
                      {"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}}};
  EXPECT_EQ(send(sent).status, 401);
  clock_.set(TimePoint(std::chrono::seconds(1614265330)) + 5min);
  EXPECT_EQ(send(sent).status, 200);
  EXPECT_EQ(only_message().topic, "hook") << "a body without /type is about the webhook's name";
}

TEST_F(WebhooksTest, NothingSecretIsInLogsAndAnswers) {
  configure({{.name = "hook", .scheme = WebhookScheme::github, .secrets = {kSecret}}});
  const Response good = send({kHello, {{"X-Hub-Signature-256", kHelloSignature}}});
  const Response bad = send({"tampered", {{"X-Hub-Signature-256", kHelloSignature}}});
  for (const std::string& text : {log_.str(), good.body, bad.body, metrics_.expose()}) {
    EXPECT_EQ(text.find("Everybody"), std::string::npos) << text;
    EXPECT_EQ(text.find("757107ea"), std::string::npos) << text;
    EXPECT_EQ(text.find("tampered"), std::string::npos) << text;
  }
  EXPECT_NE(log_.str().find("webhook refused"), std::string::npos) << log_.str();
}

TEST_F(WebhooksTest, AMissingIdIsTheBodysSha256) {
  configure_unchecked({.message_id = "{header:X-Id}"});
  EXPECT_EQ(send({kHello}).status, 200);
  EXPECT_EQ(only_message().key.message_id, kHelloSha256);
}

TEST_F(WebhooksTest, ABodyThatIsNotJsonHasNothingToPointAt) {
  configure_unchecked(
      {.message_id = "{json:/id}", .topic = "{json:/type}", .partition_key = "{json:/account}"});
  EXPECT_EQ(send({kHello}).status, 200);
  const Message message = only_message();
  EXPECT_EQ(message.key.message_id, kHelloSha256);
  EXPECT_EQ(message.topic, "hook");
  EXPECT_FALSE(message.partition_key);
}

TEST_F(WebhooksTest, TemplatesTakeFromHeadersAndFromTheBody) {
  configure_unchecked({.source = "{name}.{header:x-region}",
                       .message_id = "{json:/data/0/id}-{json:/a~1b}-{sha256}",
                       .topic = "x.{json:/type}.{json:/live}",
                       .partition_key = "{json:/n}"});
  const std::string body = R"({"data":[{"id":"o1"}],"a/b":7,"type":"paid","live":true,"n":-1.5})";
  EXPECT_EQ(send({body, {{"X-Region", "eu"}}}).status, 200);
  const Message message = only_message();
  EXPECT_EQ(message.key.source, "hook.eu");
  EXPECT_EQ(message.key.message_id.str(), "o1-7-" + to_hex(sha256(body)));
  EXPECT_EQ(message.topic, "x.paid.true");
  EXPECT_EQ(message.partition_key, PartitionKey("-1.5"));
}

TEST_F(WebhooksTest, ValuesThatAreNoTextCountAsMissing) {
  configure_unchecked({.message_id = "{json:/id}", .topic = "{json:}"});
  const std::vector<std::string> bodies = {R"({"id":null})", R"({"id":{}})", R"({"id":[1]})",
                                           R"({"id":""})", R"([])"};
  for (const std::string& body : bodies) EXPECT_EQ(send({body}).status, 200);
  for (const MessageRecord& record : stored(main_)) {
    EXPECT_EQ(record.key.message_id.str(), to_hex(sha256(record.message->payload.bytes())));
    EXPECT_EQ(record.message->topic, "hook");
  }
  EXPECT_EQ(stored(main_).size(), bodies.size());
}

TEST_F(WebhooksTest, NumbersAreTheTextThatStandsInTheBody) {
  configure_unchecked({.source = "s-{json:/id}",
                       .message_id = "{json:/id}",
                       .topic = "t-{json:/id}",
                       .partition_key = "{json:/id}"});
  const std::set<std::string> ids = {"18446744073709551616",
                                     "18446744073709551617",
                                     "9007199254740993.0",
                                     "1",
                                     "1.0",
                                     "1e0",
                                     "-0",
                                     "0.1000000000000000055511151231257827"};
  for (const std::string& id : ids) {
    const Response response = send({R"({"id":)" + id + "}"});
    EXPECT_NE(response.body.find(R"("status":"Accepted")"), std::string::npos) << response.body;
    EXPECT_NE(response.body.find('"' + id + '"'), std::string::npos) << response.body;
  }
  std::set<std::string> found;
  for (const MessageRecord& record : stored(main_)) {
    const std::string& id = record.key.message_id.str();
    found.insert(id);
    EXPECT_EQ(record.key.source.str(), "s-" + id);
    EXPECT_EQ(record.message->topic.str(), "t-" + id);
    EXPECT_EQ(record.message->partition_key, PartitionKey(id));
  }
  EXPECT_EQ(found, ids);
}

TEST_F(WebhooksTest, AnIdIsFoundInJsonOf512Levels) {
  configure_unchecked({.message_id = "{json:/id}"});
  const std::string nested = std::string(511, '[') + std::string(511, ']');
  EXPECT_EQ(send({R"({"id":"a","b":)" + nested + "}"}).status, 200);
  EXPECT_EQ(only_message().key.message_id, "a");
}

TEST_F(WebhooksTest, WhatCannotBeANameIsABadRequest) {
  configure_unchecked({.message_id = "{header:X-Id}"});
  for (const std::string& id : {std::string(256, 'x'), std::string(60'000, 'x'),
                                std::string("\xff\xfe"), std::string("a\0b", 3)}) {
    const Response response = send({kHello, {{"X-Id", id}}});
    EXPECT_EQ(response.status, 400);
    EXPECT_NE(response.body.find("message id"), std::string::npos) << response.body;
  }
  EXPECT_TRUE(stored(main_).empty());
}

TEST_F(WebhooksTest, ATraceparentOfAnotherFormIsIgnored) {
  configure_unchecked({});
  EXPECT_EQ(send({kHello, {{"traceparent", "00-zz"}}}).status, 200);
  EXPECT_TRUE(only_message().headers.empty());
}

TEST_F(WebhooksTest, DeeplyNestedJsonIsStoredUnderItsHash) {
  configure_unchecked({.message_id = "{json:/id}"});
  EXPECT_EQ(send({std::string(100'000, '[')}).status, 200);
  EXPECT_EQ(stored(main_).size(), 1u);
}

TEST_F(WebhooksTest, AWebhookMayHaveAStoreOfItsOwn) {
  configure_unchecked({.store = "second"});
  EXPECT_EQ(send({kHello}).status, 200);
  EXPECT_TRUE(stored(main_).empty());
  EXPECT_EQ(stored(second_).size(), 1u);
}

TEST_F(WebhooksTest, WhatGoesWithAMessageIsKept) {
  RecordProperty("requirement", "MSG-04");
  configure_unchecked({});
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  (void)send({kHello,
              {{"Content-Type", "text/plain"},
               {"Oncebox-Correlation-Id", "order%207"},
               {"X-Correlation-Id", "another"},
               {"X-Causation-Id", "click-3"},
               {"Oncebox-Partition-Key", "k%C3%BCche"},
               {"Oncebox-Timestamp", "2026-01-31T08:15:30.250Z"},
               {"Idempotency-Key", "\"key 1\""},
               {"traceparent", trace},
               {"tracestate", "vendor=x"}}});
  EXPECT_EQ(only_message().headers, (Headers{{"contentType", "text/plain"},
                                             {"correlationId", "order 7"},
                                             {"causationId", "click-3"},
                                             {"partitionKey", "küche"},
                                             {"timestamp", "2026-01-31T08:15:30.250Z"},
                                             {"idempotencyKey", "key 1"},
                                             {"traceparent", trace},
                                             {"tracestate", "vendor=x"}}));
  EXPECT_EQ(only_message().partition_key, std::nullopt) << "only a template orders messages";
}

TEST_F(WebhooksTest, TheTimeOfAStandardWebhookIsItsTimestamp) {
  configure_unchecked({});
  (void)send({kHello, {{"webhook-timestamp", "1769847330"}}});
  EXPECT_EQ(only_message().headers.timestamp(), parse_rfc3339("2026-01-31T08:15:30.000Z"));
}

TEST_F(WebhooksTest, AWebhookOfSvixHasItsIdAndTime) {
  configure({{.name = "hook",
              .scheme = WebhookScheme::standard_webhooks,
              .secrets = {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}});
  clock_.set(TimePoint{std::chrono::seconds{1'614'265'330}});
  const Sent svix{R"({"test": 2432232314})",
                  {{"svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"},
                   {"svix-timestamp", "1614265330"},
                   {"svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}}};
  EXPECT_EQ(send(svix).status, 200);
  const Message message = only_message();
  EXPECT_EQ(message.key, (MessageKey{"hook", "msg_p5jXN8AQM9LWM0D4loKWxJek"}));
  EXPECT_EQ(message.headers.timestamp(), parse_rfc3339("2021-02-25T15:02:10.000Z"));
}

TEST_F(WebhooksTest, WhatCannotBeAHeaderIsLeftOutAndTheMessageTaken) {
  configure_unchecked({});
  const Response response = send({kHello,
                                  {{"X-Correlation-Id", "\xff\xfe"},
                                   {"Oncebox-Causation-Id", "100%"},
                                   {"Oncebox-Timestamp", "yesterday"},
                                   {"Idempotency-Key", ""},
                                   {"Oncebox-Partition-Key", std::string(9'000, 'x')},
                                   {"tracestate", "vendor=x"}}});
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(only_message().headers, Headers());
}

TEST_F(WebhooksTest, AKeyThatIsTooLongIsLeftOutAndTheMessageTaken) {
  configure_unchecked({});
  const Response response = send({kHello, {{"Idempotency-Key", std::string(2'000, 'k')}}});
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(only_message().headers, Headers());
}

TEST_F(WebhooksTest, TheStoreIsNamedByAHeaderOrByThePath) {
  for (const auto& [store, name, field] :
       std::vector<std::tuple<std::string, std::string, Fields::Entry>>{
           {"{header:X-Tenant}", "hook", {"X-Tenant", "second"}},
           {"{path}", "hook/second", {}},
           {"sec{path}", "hook/ond", {}},
           {"{path}", "hook/%73econd", {}}}) {
    configure_unchecked({.store = store});
    const std::size_t before = stored(second_).size();
    const Response response = send({store + name, {field}}, name);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(stored(second_).size(), before + 1) << store << " " << name;
  }
  EXPECT_TRUE(stored(main_).empty());
}

TEST_F(WebhooksTest, ARequestThatNamesNoStoreOrAnUnknownOneIsNotStoredElsewhere) {
  configure_unchecked({.store = "{header:X-Tenant}"});
  EXPECT_EQ(send({kHello}).status, 400);
  EXPECT_EQ(send({kHello, {{"X-Tenant", ""}}}).status, 400);
  EXPECT_EQ(send({kHello, {{"X-Tenant", "third"}}}).status, 404);
  EXPECT_EQ(send({kHello, {{"X-Tenant", "main"}}}, "hook/main").status, 404)
      << "no template of it uses the path";
  configure_unchecked({.store = "{path}"});
  EXPECT_EQ(send({kHello}).status, 400);
  EXPECT_EQ(send({kHello}, "hook/second/deeper").status, 404);
  EXPECT_TRUE(stored(main_).empty());
  EXPECT_TRUE(stored(second_).empty());
}

TEST_F(WebhooksTest, AnUnknownNameIsNotFound) {
  configure_unchecked({});
  EXPECT_EQ(send({kHello}, "nobody").status, 404);
}

TEST_F(WebhooksTest, WhenItsStoreIsNotThereTheSenderMayTryAgain) {
  configure_unchecked({.store = "later"});
  const Response response = send({kHello});
  EXPECT_EQ(response.status, 503);
  EXPECT_TRUE(response.fields.get("Retry-After"));
}

TEST_F(WebhooksTest, AnOverloadedInboxIsTriedAgainLater) {
  configure_unchecked({});
  served_.at("main")->inbox.singles.stop();
  const Response response = send({kHello});
  EXPECT_EQ(response.status, 503);
  EXPECT_TRUE(response.fields.get("Retry-After"));
}

TEST_F(WebhooksTest, OutcomesAreCounted) {
  configure({{.name = "hook",
              .scheme = WebhookScheme::github,
              .secrets = {kSecret},
              .message_id = "{header:X-Id}"}});
  const Fields::Entry proof = {"X-Hub-Signature-256", kHelloSignature};
  (void)send({kHello, {proof}});
  (void)send({kHello, {proof}});
  (void)send({"tampered", {proof}});
  (void)send({kHello, {proof, {"X-Id", std::string(300, 'x')}}});
  served_.at("main")->inbox.singles.stop();
  (void)send({kHello, {proof}});
  const std::string exposed = metrics_.expose();
  for (const std::string& outcome : std::initializer_list<std::string>{
           "accepted", "duplicate", "bad_signature", "bad_request", "failed"}) {
    const std::string line =
        "oncebox_webhooks_total{outcome=\"" + outcome + "\",webhook=\"hook\"} 1\n";
    EXPECT_NE(exposed.find(line), std::string::npos) << line;
  }
}

TEST_F(WebhooksTest, OtherContentUnderAKnownIdIsCountedByWhatBecameOfIt) {
  using Policy = HashMismatchPolicy;
  const std::map<std::string, Policy> policies{{"rejected", Policy::reject},
                                               {"quarantined", Policy::quarantine}};
  for (const auto& [outcome, policy] : policies) {
    server_options_.enqueue.on_hash_mismatch = policy;
    configure_unchecked({.message_id = outcome});
    (void)send({"first"});
    (void)send({"other"});
    const std::string exposed = metrics_.expose();
    const std::string line =
        "oncebox_webhooks_total{outcome=\"" + outcome + "\",webhook=\"hook\"} 1\n";
    EXPECT_NE(exposed.find(line), std::string::npos) << line;
    EXPECT_EQ(exposed.find("oncebox_webhooks_total{outcome=\"duplicate\""), std::string::npos);
  }
}

TEST_F(WebhooksTest, TheServersOptionsAreCheckedBeforeItIsMade) {
  ServerOptions options;
  options.webhooks = {{.name = "hook", .scheme = WebhookScheme::none, .topic = "{"}};
  EXPECT_THROW(options.validate(), Error);
}

TEST_F(WebhooksTest, OptionsThatCannotWorkAreNamed) {
  const auto error_with = [&](auto change) {
    WebhookOptions options{.name = "hook", .scheme = WebhookScheme::none};
    change(options);
    const std::string error = configuration_error(options);
    EXPECT_NE(error.find("webhook \""), std::string::npos) << error;
    return error;
  };
  const auto has = [](const std::string& error, const std::string& part) {
    return error.find(part) != std::string::npos;
  };
  const auto id_error = [&](const std::string& text) {
    return error_with([&](WebhookOptions& options) { options.message_id = text; });
  };
  EXPECT_TRUE(has(id_error(""), "message_id"));
  EXPECT_TRUE(has(id_error("{oops}"), "{oops}; use {header:NAME}"));
  EXPECT_TRUE(has(id_error("{json:id}"), "JSON pointer"));
  EXPECT_TRUE(has(id_error("{json:/a~2}"), "JSON pointer"));
  EXPECT_TRUE(has(id_error("{header:a b}"), "header's name"));
  EXPECT_TRUE(has(id_error("{header:}"), "header's name"));
  EXPECT_TRUE(has(id_error("{name"), "{ without a }"));
  EXPECT_TRUE(has(id_error("name}"), "} without a {"));
  EXPECT_TRUE(has(error_with([](auto& options) { options.name = "a/b"; }), "name"));
  EXPECT_TRUE(has(error_with([](auto& options) { options.source = "{"; }), "source"));
  EXPECT_TRUE(
      has(error_with([](auto& options) { options.scheme = WebhookScheme::github; }), "secrets"));
  EXPECT_THROW(configure({{.name = "twice", .scheme = WebhookScheme::none},
                          {.name = "twice", .scheme = WebhookScheme::none}}),
               Error);
}

}  // namespace
}  // namespace oncebox::server
