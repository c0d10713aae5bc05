#include "api_fixture.hpp"

#include <algorithm>
#include <array>

#include "exchange_record.hpp"
#include "http/answers.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::server {

namespace {

std::vector<wire::QueryParameter> query_of(std::string_view text) {
  std::vector<wire::QueryParameter> query;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    query.push_back(
        {.name = wire::percent_decode(pair.substr(0, equals)).value_or("?"),
         .value =
             wire::percent_decode(pair.substr(std::min(equals + 1, pair.size()))).value_or("?")});
  }
  return query;
}

Request request_of(const TestCall& call) {
  Request request{.method = call.method, .path = call.target.substr(0, call.target.find('?'))};
  if (request.path.size() < call.target.size()) {
    request.query = query_of(std::string_view(call.target).substr(request.path.size() + 1));
  }
  for (const TestField& field : call.fields) request.fields.add(field.name, field.value);
  request.id = "test-request";
  request.principal.name = call.principal;
  request.principal.scopes = call.scopes;
  request.peer = call.peer;
  if (!call.limits.empty()) {
    request.principal.limits = std::make_shared<const TokenLimits>(call.limits);
  }
  return request;
}

}  // namespace

TestCall get(std::string target) {
  return {.method = Method::get, .target = std::move(target), .fields = {}};
}

TestCall post(std::string target, std::string body) {
  return {.target = std::move(target), .body = std::move(body)};
}

boost::json::value json_of(const Response& response) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(response.body, error);
  EXPECT_FALSE(error) << response.status << " " << response.body;
  return value;
}

std::string problem_code(const Response& response) {
  if (response.content_type != "application/problem+json") return {};
  return json_of(response).at("code").as_string().c_str();
}

std::string problem_detail(const Response& response) {
  if (response.content_type != "application/problem+json") return {};
  return json_of(response).at("detail").as_string().c_str();
}

void LineLogger::write(LogLevel, std::string_view text, std::span<const LogField> fields) noexcept {
  std::string line(text);
  for (const LogField& field : fields) {
    const auto* value = std::get_if<std::string_view>(&field.value());
    if (field.name() == "store" && value != nullptr) line += " store=" + std::string(*value);
  }
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
  changed_.notify_all();
}

bool LineLogger::wait_for(std::string_view beginning) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] {
    return std::ranges::any_of(
        lines_, [&](const std::string& line) { return line.starts_with(beginning); });
  });
}

ApiUnderTest::ApiUnderTest(ServerOptions options, const std::vector<NamedStore>& stores,
                           const Clock& clock)
    : own_stores_(borrowed_set(stores, logger_)) {
  options.default_store = stores.front().name;
  api_ = std::make_unique<Api>(options, *own_stores_, metrics_,
                               Surroundings{.logger = logger_, .clock = clock});
  api_->add_routes(router_);
  api_->start();
}

ApiUnderTest::ApiUnderTest(const ServerOptions& options, StoreSet& stores, const Clock& clock)
    : api_(std::make_unique<Api>(options, stores, metrics_,
                                 Surroundings{.logger = logger_, .clock = clock})) {
  api_->add_routes(router_);
  api_->start();
}

std::shared_ptr<TestExchange> ApiUnderTest::begin(const TestCall& call) {
  Request request = request_of(call);
  auto found = router_.find(request.method, request.path);
  const auto* match = std::get_if<Match>(&found);
  if (match == nullptr) {
    auto exchange = std::make_shared<TestExchange>(std::move(request));
    exchange->send({.status = std::holds_alternative<NoSuchMethod>(found) ? 405 : 404});
    return exchange;
  }
  if (!holds_limits(*match->route, request.principal)) {
    auto exchange = std::make_shared<TestExchange>(std::move(request));
    exchange->send(problem_response(
        {.status = 403, .code = "forbidden", .title = "Not allowed", .detail = "by its limits"},
        exchange->request()));
    return exchange;
  }
  request.arguments = match->arguments;
  if (!is_streamed(match->route->body, request.fields)) request.body = call.body;
  auto exchange = std::make_shared<TestExchange>(std::move(request));
  exchange->set_address(call.address);
  try {
    match->route->handler(exchange);
  } catch (...) {
    exchange->send(failure_response(std::current_exception(), exchange->request()));
  }
  // The test's share: as a connection does, it lets go of the sink in the end.
  TestExchange* const shown = exchange.get();
  return {shown, [exchange](TestExchange*) { exchange->forget_body(); }};
}

Response ApiUnderTest::call(const TestCall& call, std::size_t piece_bytes) {
  const std::shared_ptr<TestExchange> exchange = begin(call);
  exchange->send_body(call.body, piece_bytes);
  Response response = exchange->wait();
  const Request& request = exchange->request();
  const auto found = router_.find(request.method, request.path);
  if (const auto* match = std::get_if<Match>(&found)) {
    record_exchange({.method = to_string(request.method),
                     .route = match->route->pattern,
                     .path = request.path,
                     .request_type = request.fields.get("Content-Type").value_or(""),
                     .request_body = call.body,
                     .status = response.status,
                     .response_type = response.content_type,
                     .response_body = response.body});
  }
  return response;
}

ServerOptions quiet_options() {
  ServerOptions options;
  options.call_threads = 4;
  options.retention.interval = std::chrono::hours{24};
  options.retention.reap_interval = std::chrono::hours{24};
  options.watchdog.interval = std::chrono::hours{1};
  return options;
}

ApiTest::ApiTest(const ServerOptions& options)
    : under_test_(options, {{"first", *store_}, {"second", *second_}}, clock_) {}

void ApiTest::enqueue(const std::string& id, const std::string& topic) {
  const Response response =
      call(post("/v1/messages", R"({"source":"shop","messageId":")" + id + R"(","topic":")" +
                                    topic + R"(","payload":{"id":")" + id + R"("}})"));
  ASSERT_EQ(response.status, 200) << response.body;
}

boost::json::value ApiTest::claim(std::size_t limit) {
  const Response response =
      call(post("/v1/messages/claim", R"({"limit":)" + std::to_string(limit) + "}"));
  EXPECT_EQ(response.status, 200) << response.body;
  return json_of(response);
}

MessageRecord ApiTest::record(const std::string& id) {
  const auto found = store_->inbox().find(MessageKey{"shop", id});
  EXPECT_TRUE(found) << "no message " << id;
  return found.value_or(MessageRecord{.key = {"shop", id}});
}

std::string store_kind_name(const ::testing::TestParamInfo<StoreKind>& info) {
  constexpr std::array kNames{"memory", "sqlite", "postgresql"};
  return kNames.at(static_cast<std::size_t>(info.param));
}

}  // namespace oncebox::server
