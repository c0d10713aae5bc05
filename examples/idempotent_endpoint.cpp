// An HTTP endpoint with the Idempotency-Key header, on Boost.Beast: the few lines that join a
// framework and `IdempotentHttp`. Serves itself on the loopback interface and prints what it sees.

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "oncebox/idempotent_http.hpp"
#include "oncebox/memory/memory_store.hpp"

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
    const std::string number = std::to_string(++count_);
    return {.status = 201,
            .headers = {{"Content-Type", "text/plain"}, {"Location", "/payments/" + number}},
            .body = "payment " + number + " of " + amount};
  }

 private:
  int count_ = 0;  // one request at a time
};

Response answer(IdempotentHttp& idempotent, Payments& payments, const Request& request) {
  const auto target = request.target();
  HttpRequestView view{.method = std::string_view(request.method_string()),
                       .target = std::string_view(target.data(), target.size()),
                       .body = request.body()};
  if (const auto header = request.find("Idempotency-Key"); header != request.end()) {
    view.idempotency_key = std::string_view(header->value().data(), header->value().size());
  }
  const HttpAnswer made =
      idempotent.handle(view, [&](ReceiveContext&) { return payments.create(request.body()); });
  Response response(static_cast<http::status>(made.status), request.version());
  for (const auto& [name, value] : made.headers) response.set(name, value);
  response.body() = made.body;
  response.prepare_payload();
  return response;
}

// Answers the requests of one connection, one after the other.
void serve(tcp::acceptor& acceptor, IdempotentHttp& idempotent) {
  Payments payments;
  tcp::socket socket = acceptor.accept();
  boost::beast::flat_buffer buffer;
  boost::system::error_code closed;
  while (true) {
    Request request;
    http::read(socket, buffer, request, closed);
    if (closed) return;
    http::write(socket, answer(idempotent, payments, request));
  }
}

void post(tcp::socket& socket, const std::optional<std::string>& key, const std::string& amount) {
  Request request(http::verb::post, "/payments", 11);
  request.set(http::field::host, "localhost");
  if (key) request.set("Idempotency-Key", *key);
  request.body() = amount;
  request.prepare_payload();
  http::write(socket, request);
  boost::beast::flat_buffer buffer;
  Response response;
  http::read(socket, buffer, response);
  std::cout << "POST " << amount << " with " << key.value_or("no key") << " -> "
            << response.result_int() << ' ' << response.body();
  if (response.count("Idempotent-Replayed") > 0) std::cout << " (replayed)";
  std::cout << '\n';
}

}  // namespace

int main() {
  memory::MemoryStore store;
  IdempotentHttp idempotent(store.keys());
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), 0});
  const std::jthread server([&] { serve(acceptor, idempotent); });
  tcp::socket socket(context);
  socket.connect(acceptor.local_endpoint());
  post(socket, "\"pay-1\"", "42");
  post(socket, "\"pay-1\"", "42");
  post(socket, "\"pay-1\"", "43");
  post(socket, "\"pay-2\"", "0");
  post(socket, "\"pay-2\"", "7");
  post(socket, "\"open", "42");
  post(socket, std::nullopt, "42");
  socket.close();
}
