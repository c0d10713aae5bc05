#include "api_http_client.hpp"

#include <charconv>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace oncebox::server {

namespace {

std::string head_of(const TestCall& call) {
  std::string head(to_string(call.method));
  head += " " + call.target + " HTTP/1.1\r\nHost: localhost\r\n";
  for (const TestField& field : call.fields) head += field.name + ": " + field.value + "\r\n";
  return head;
}

}  // namespace

void HttpClient::send(std::string_view bytes) {
  if (!client_.send(bytes)) throw std::runtime_error("the server closed the connection");
}

void HttpClient::begin(const TestCall& call) {
  std::string request = head_of(call);
  if (!call.body.empty() || call.method == Method::post) {
    request += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  }
  send(request + "\r\n" + call.body);
}

Response HttpClient::finish() {
  RawResponse received = client_.receive();
  return {.status = received.status,
          .content_type = received.field("Content-Type"),
          .body = std::move(received.body),
          .fields = std::move(received.fields)};
}

Response HttpClient::call(const TestCall& call) {
  begin(call);
  return finish();
}

void HttpClient::begin_chunked(const TestCall& call) {
  send(head_of(call) + "Transfer-Encoding: chunked\r\n\r\n");
}

void HttpClient::send_chunk(std::string_view bytes) {
  char size[24];
  const auto end = std::to_chars(std::begin(size), std::end(size), bytes.size(), 16).ptr;
  send(std::string(size, end) + "\r\n" + std::string(bytes) + "\r\n");
}

}  // namespace oncebox::server
