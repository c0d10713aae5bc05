#include "bench_receiver.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace oncebox::bench {

namespace {

constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view kLength = "Content-Length: ";

int checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string("the receiver of the benchmark: ") + what);
  return result;
}

int listen_here() {
  const int fd = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  checked(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind");
  checked(listen(fd, SOMAXCONN), "listen");
  return fd;
}

void watch(int epoll, int fd, void* data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = data;
  checked(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

BenchReceiver::BenchReceiver()
    : listener_(listen_here()),
      wake_(checked(eventfd(0, EFD_CLOEXEC), "eventfd")),
      epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll")) {
  watch(epoll_, listener_, nullptr);
  watch(epoll_, wake_, this);
  thread_ = std::thread([this] { run(); });
}

BenchReceiver::~BenchReceiver() {
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
  thread_.join();
  for (Connection* connection : connections_) {
    close(connection->fd);
    delete connection;
  }
  for (const int fd : {listener_, wake_, epoll_}) close(fd);
}

std::string BenchReceiver::url() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  checked(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  return "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

std::vector<double> BenchReceiver::take_delays_us() {
  const std::lock_guard lock(mutex_);
  return std::exchange(delays_us_, {});
}

void BenchReceiver::run() {
  std::array<epoll_event, 256> events{};
  for (;;) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      void* const data = events[static_cast<std::size_t>(i)].data.ptr;
      if (data == this) return;
      if (data != nullptr) {
        read_from(*static_cast<Connection*>(data));
        continue;
      }
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) continue;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      auto connection = std::make_unique<Connection>(Connection{fd});
      watch(epoll_, fd, connection.get());
      connections_.insert(connection.release());
    }
  }
}

void BenchReceiver::read_from(Connection& connection) {
  std::array<char, 16'384> piece;
  const ssize_t size = recv(connection.fd, piece.data(), piece.size(), 0);
  if (size <= 0) {
    close(connection.fd);
    connections_.erase(&connection);
    delete &connection;
    return;
  }
  connection.bytes.append(piece.data(), static_cast<std::size_t>(size));
  answer(connection);
}

void BenchReceiver::answer(Connection& connection) {
  const std::string_view bytes = connection.bytes;
  const std::size_t head = bytes.find("\r\n\r\n");
  const std::size_t length_at = bytes.find(kLength);
  if (head == bytes.npos || length_at > head) return;
  std::size_t length = 0;
  std::from_chars(bytes.data() + length_at + kLength.size(), bytes.data() + head, length);
  if (bytes.size() < head + 4 + length) return;
  const bool hangs = bytes.starts_with("POST /hang/");
  if (!hangs) {
    note(bytes.substr(head + 4, length));
    (void)!send(connection.fd, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
  }
  connection.bytes.clear();
}

void BenchReceiver::note(std::string_view body) {
  std::int64_t sent_us = 0;
  std::from_chars(body.data(), body.data() + body.size(), sent_us);
  const std::lock_guard lock(mutex_);
  delays_us_.push_back(static_cast<double>(now_us() - sent_us));
}

std::string body_now(std::size_t bytes) {
  std::string body = std::to_string(now_us());
  body.resize(std::max(bytes, body.size()), ' ');
  return body;
}

}  // namespace oncebox::bench
