// An HTTP endpoint with the Idempotency-Key header, on Boost.Beast: the few lines that join a
// framework and `IdempotentHttp`. Serves itself on the loopback interface and prints what it sees.

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <iostream>
#include <iterator>
#include <latch>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/receive/idempotent_http.hpp"

namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using namespace oncebox;

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

// What must not happen twice.
class Payments {
 public:
  HttpAnswer create(const std::string& amount) {
    if (amount == "0") return {.status = 503, .body = "try again"};
    if (amount == "-1") throw std::runtime_error("the ledger cannot be negative");
    if (amount == "1000000") {
      large_one_runs.count_down();
      large_one_may_end.wait();
    }
    const std::string number = std::to_string(++count_);
    return {.status = 201,
            .headers = {{"Content-Type", "text/plain"},
                        {"Location", "/payments/" + number},
                        {"Link", "</payments>; rel=\"collection\""},
                        {"Link", "</payments/" + number + "/receipt>; rel=\"related\""}},
            .body = "payment " + number + " of " + amount};
  }

  std::latch large_one_runs{1};
  std::latch large_one_may_end{1};

 private:
  std::atomic<int> count_ = 0;
};

std::string_view view_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// Who asks. This one believes what it is told; a service looks at the token or the session. Keys
/// of one account are none of another.
std::string_view account_of(const Request& request) { return view_of(request["X-Account"]); }

/// As it came. Several lines are no key, as nobody knows which one is meant: an empty one is
/// answered as malformed.
std::optional<std::string_view> key_of(const Request& request) {
  const auto [first, last] = request.equal_range("Idempotency-Key");
  if (first == last) return std::nullopt;
  if (std::next(first) != last) return "";
  return view_of(first->value());
}

HttpAnswer answer(IdempotentHttp& idempotent, Payments& payments, const Request& request) {
  const HttpRequestView view{.method = view_of(request.method_string()),
                             .target = view_of(request.target()),
                             .idempotency_key = key_of(request),
                             .body = request.body(),
                             .scope = account_of(request)};
  try {
    return idempotent.handle(view,
                             [&](ReceiveContext&) { return payments.create(request.body()); });
  } catch (const std::exception& error) {
    // The operation, or the store. What went wrong is for the log, not for the client.
    std::cerr << error.what() << '\n';
    return {.status = 500,
            .headers = {{"Content-Type", "application/problem+json"}},
            .body = R"({"type":"about:blank","title":"Internal Server Error","status":500})"};
  }
}

Response to_response(const HttpAnswer& answer, unsigned version) {
  Response response(static_cast<http::status>(answer.status), version);
  for (const auto& [name, value] : answer.headers) response.insert(name, value);  // may repeat
  response.body() = answer.body;
  response.prepare_payload();
  return response;
}

// Answers the requests of one connection, one after the other.
void serve(tcp::socket& socket, IdempotentHttp& idempotent, Payments& payments) {
  boost::beast::flat_buffer buffer;
  boost::system::error_code closed;
  while (true) {
    Request request;
    http::read(socket, buffer, request, closed);
    if (closed) return;
    http::write(socket, to_response(answer(idempotent, payments, request), request.version()));
  }
}

struct Post {
  std::string amount;
  std::vector<std::string> keys = {};
  std::string account = "ann";
};

void send(tcp::socket& socket, const Post& post) {
  Request request(http::verb::post, "/payments", 11);
  request.set(http::field::host, "localhost");
  request.set("X-Account", post.account);
  std::cout << post.account << ": POST " << post.amount;
  for (const std::string& key : post.keys) {
    request.insert("Idempotency-Key", key);
    std::cout << " with " << key;
  }
  request.body() = post.amount;
  request.prepare_payload();
  http::write(socket, request);
  std::cout << std::flush;
}

void receive(tcp::socket& socket) {
  boost::beast::flat_buffer buffer;
  Response response;
  http::read(socket, buffer, response);
  std::cout << " -> " << response.result_int() << ' ' << response.body();
  if (response.count("Idempotent-Replayed") > 0) std::cout << " (replayed)";
  if (response.count("Retry-After") > 0) {
    std::cout << " (again in " << response["Retry-After"] << " s)";
  }
  std::cout << '\n';
}

}  // namespace

int main() {
  memory::MemoryStore store;
  IdempotentHttp idempotent(store.keys(), {.documentation_url = "https://example.com/keys"});
  Payments payments;
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), 0});
  std::vector<std::jthread> serving;
  const auto connect = [&] {
    tcp::socket client(context);
    client.connect(acceptor.local_endpoint());
    serving.emplace_back(
        [&, socket = acceptor.accept()]() mutable { serve(socket, idempotent, payments); });
    return client;
  };

  tcp::socket client = connect();
  const auto post = [&](const Post& request) {
    send(client, request);
    receive(client);
  };
  post({"42", {"\"pay-1\""}});
  post({"42", {"\"pay-1\""}});
  post({"43", {"\"pay-1\""}});
  post({"42", {"\"pay-1\""}, "bob"});
  post({"0", {"\"pay-2\""}});
  post({"7", {"\"pay-2\""}});
  post({"-1", {"\"pay-3\""}});
  post({"42", {"\"open"}});
  post({"42", {"\"pay-4\"", "\"pay-5\""}});
  post({"42"});

  // A client that does not wait for its answer, and asks again while the first request runs.
  tcp::socket impatient = connect();
  send(impatient, {"1000000", {"\"pay-6\""}});
  std::cout << " -> no answer yet\n";
  payments.large_one_runs.wait();
  post({"1000000", {"\"pay-6\""}});
  payments.large_one_may_end.count_down();
  std::cout << "the first request";
  receive(impatient);
  post({"1000000", {"\"pay-6\""}});
}
