#include "api_http_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <stdexcept>
#include <system_error>

namespace oncebox::server {

namespace {

std::string head_of(const TestCall& call) {
  std::string head(to_string(call.method));
  head += " " + call.target + " HTTP/1.1\r\nHost: localhost\r\n";
  for (const TestField& field : call.fields) head += field.name + ": " + field.value + "\r\n";
  return head;
}

std::size_t number_in(std::string_view text, int base) {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

}  // namespace

HttpClient::HttpClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket_);
    throw std::system_error(errno, std::generic_category(), "connect");
  }
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

HttpClient::~HttpClient() { ::close(socket_); }

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("the server closed the connection");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void HttpClient::receive() {
  char buffer[16 << 10];
  ssize_t got = 0;
  do {
    got = ::recv(socket_, buffer, sizeof buffer, 0);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) throw std::runtime_error("the server closed the connection or does not answer");
  received_.append(buffer, static_cast<std::size_t>(got));
}

std::string HttpClient::take_line() {
  std::size_t end = 0;
  while ((end = received_.find("\r\n")) == std::string::npos) receive();
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 2);
  return line;
}

std::string HttpClient::take_bytes(std::size_t count) {
  while (received_.size() < count) receive();
  std::string bytes = received_.substr(0, count);
  received_.erase(0, count);
  return bytes;
}

void HttpClient::begin(const TestCall& call) {
  std::string request = head_of(call);
  if (!call.body.empty() || call.method == Method::post) {
    request += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  }
  send(request + "\r\n" + call.body);
}

Response HttpClient::finish() {
  Response response;
  response.content_type.clear();
  response.status = static_cast<int>(number_in(take_line().substr(9, 3), 10));
  std::size_t length = 0;
  for (std::string line = take_line(); !line.empty(); line = take_line()) {
    const std::size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::string value = line.substr(line.find_first_not_of(' ', colon + 1));
    if (equal_ignoring_case(name, "Content-Length")) length = number_in(value, 10);
    if (equal_ignoring_case(name, "Content-Type")) response.content_type = value;
    response.fields.add(std::move(name), std::move(value));
  }
  response.body = take_bytes(length);
  return response;
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

std::string HttpClient::read_until(std::string_view text) {
  while (received_.find(text) == std::string::npos) receive();
  return received_;
}

}  // namespace oncebox::server
