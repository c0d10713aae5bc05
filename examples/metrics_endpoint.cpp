// A worker that Prometheus asks: it is no server, and answers `GET /metrics` and nothing else.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <iostream>
#include <string>

#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/prometheus/prometheus_metrics.hpp"
#include "oncebox/server/metrics_endpoint.hpp"

namespace {

using namespace oncebox;

/// What Prometheus does every few seconds.
void scrape(std::uint16_t port, const std::string& target) {
  namespace http = boost::beast::http;
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket(context);
  socket.connect({boost::asio::ip::address_v4::loopback(), port});
  http::request<http::empty_body> request(http::verb::get, target, 11);
  request.set(http::field::host, "127.0.0.1");
  http::write(socket, request);
  boost::beast::flat_buffer buffer;
  http::response<http::string_body> answer;
  http::read(socket, buffer, answer);
  const bool tells = answer.body().find("oncebox_messages_enqueued_total{") != std::string::npos;
  std::cout << target << ": " << answer.result_int()
            << (tells ? ", with the messages that came" : "") << '\n';
}

}  // namespace

int main() {
  memory::MemoryStore store;
  PrometheusMetrics metrics;
  Inbox inbox(store, {}, {.observer = metrics.observer({"shop"})});
  inbox.enqueue({.key = {"web", "order-1"}, .topic = "order.created"});

  const server::ListenOptions listen{.port = 0};  // any free one
  const server::MetricsEndpoint endpoint(listen, [&] { return metrics.expose(); });
  scrape(endpoint.port(), "/metrics");
  scrape(endpoint.port(), "/v1/messages");
}
