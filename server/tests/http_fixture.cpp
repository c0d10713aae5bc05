#include "http_fixture.hpp"

#include <sstream>

#include "http/answers.hpp"
#include "oncebox/error.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox::server {

void KeepingLogger::write(LogLevel level, std::string_view text,
                          std::span<const LogField> fields) noexcept {
  const SystemClock clock;
  std::ostringstream out;
  TextLogger line(out, clock, LogLevel::debug);
  line.write(level, text, fields);
  std::string written = out.str();
  lines.add(written.substr(written.find(' ') + 1));
}

void CountingObserver::on_request(const Answered& answered) noexcept {
  requests.add({.method = std::string(answered.method),
                .route = std::string(answered.route),
                .status = answered.status,
                .bytes_in = answered.bytes_in,
                .bytes_out = answered.bytes_out});
}

void CountingObserver::on_connections(std::ptrdiff_t change) noexcept {
  if (change < 0) when_one_closes();
  const std::lock_guard lock(mutex_);
  connections_ += change;
  changed_.notify_all();
}

void CountingObserver::wait_for_connections(std::ptrdiff_t count) {
  std::unique_lock lock(mutex_);
  const bool came =
      changed_.wait_for(lock, std::chrono::seconds{60}, [&] { return connections_ == count; });
  if (!came) throw std::runtime_error("there are " + std::to_string(connections_) + " connections");
}

std::ptrdiff_t CountingObserver::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

void AnswerThread::push(ExchangePtr exchange) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(exchange));
  changed_.notify_one();
}

void AnswerThread::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<ExchangePtr> batch;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
      batch.swap(waiting_);
    }
    for (const auto& exchange : batch) exchange->send(json_response(exchange->request().body));
  }
}

void KeepingSink::on_data(std::string piece, std::function<void()> more) {
  pieces.add(std::move(piece));
  if (is_patient) {
    mores.add(std::move(more));
  } else {
    more();
  }
}

namespace {

std::string describe(const Request& request) {
  std::string text(to_string(request.method));
  text += ' ' + request.path;
  for (const auto& argument : request.arguments) text += " {" + argument + "}";
  for (const auto& [name, value] : request.query) text += " " + name + "=" + value;
  return text;
}

[[noreturn]] void fail_as(const std::string& what) {
  if (what == "error") throw Error(ErrorCode::conflict, "so it is");
  if (what == "full") throw Error(ErrorCode::overloaded, "come back later");
  if (what == "number") throw 42;
  throw std::runtime_error("a secret detail");
}

}  // namespace

HttpTest::HttpTest() {
  options.listen.port = 0;
  options.io_threads = 2;
  options.auth.token_variable = "";
  const auto add = [this](Method method, std::string pattern, Handler handler,
                          BodyKind body = BodyKind::whole) {
    router.add({.method = method,
                .pattern = std::move(pattern),
                .scope = Scope::open,
                .handler = std::move(handler),
                .body = body});
  };
  add(Method::get, "/hello",
      [](const ExchangePtr& exchange) { exchange->send(json_response(R"({"ok":true})")); });
  add(Method::post, "/echo",
      [](const ExchangePtr& exchange) { exchange->send(json_response(exchange->request().body)); });
  add(Method::post, "/later", [this](const ExchangePtr& exchange) { answers_.push(exchange); });
  const auto hold = [this](const ExchangePtr& exchange) { held.add(exchange); };
  add(Method::get, "/held", hold);
  add(Method::post, "/held", hold);
  add(Method::get, "/dropped", [](const ExchangePtr&) {});
  add(Method::get, "/throws/{what}",
      [](const ExchangePtr& exchange) { fail_as(exchange->request().arguments.at(0)); });
  add(Method::get, "/request/{a}/{b*}", [](const ExchangePtr& exchange) {
    exchange->send(json_response(describe(exchange->request())));
  });
  add(
      Method::post, "/streamed",
      [this](const ExchangePtr& exchange) {
        exchange->read_body(sink);
        held.add(exchange);
      },
      BodyKind::streamed);
  add(Method::get, "/events", [this](const ExchangePtr& exchange) {
    Response head;
    head.content_type = "text/event-stream";
    streams.add(exchange->send_stream(std::move(head)));
  });
  add(Method::get, "/large/{bytes}", [](const ExchangePtr& exchange) {
    exchange->send(
        json_response(std::string(std::stoul(exchange->request().arguments.at(0)), 'x')));
  });
  for (const Scope scope : {Scope::read, Scope::produce, Scope::consume, Scope::operate}) {
    router.add({.method = Method::post,
                .pattern = "/v1/" + std::string(to_string(scope)),
                .scope = scope,
                .handler = [](const ExchangePtr& exchange) {
                  exchange->send(json_response(exchange->request().principal.name));
                }});
  }
}

HttpTest::~HttpTest() {
  held.clear();
  streams.clear();
}

HttpServer& HttpTest::start() {
  authenticator.emplace(options.auth, logger);
  server_.emplace(options, router, *authenticator, logger, observer, clock);
  server_->start();
  return *server_;
}

void HttpTest::move_time_until_news(const RawClient& client) {
  constexpr int kSteps = 15'000;
  for (int step = 0; step < kSteps; ++step) {
    if (client.has_news(std::chrono::milliseconds{5})) return;
    clock.advance(Duration{10});
  }
  throw std::runtime_error("the server did not mind that time passed");
}

std::string request_text(std::string_view method, std::string_view path, std::string_view body,
                         std::string_view fields) {
  std::string text(method);
  text += ' ';
  text += path;
  text += " HTTP/1.1\r\nHost: localhost\r\n";
  text += fields;
  if (!body.empty() || method == "POST") {
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  text += "\r\n";
  text += body;
  return text;
}

std::string code_of(const RawResponse& response) {
  const std::string mark = "\"code\":\"";
  const std::size_t at = response.body.find(mark);
  if (at == std::string::npos) return "no code in: " + response.body;
  const std::size_t begin = at + mark.size();
  return response.body.substr(begin, response.body.find('"', begin) - begin);
}

}  // namespace oncebox::server
