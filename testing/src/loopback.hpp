#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

/// Blocking sockets on this machine, for the servers of the tests.
namespace oncebox::testing {

inline sockaddr_in loopback_address(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline int listen_on_loopback() {
  constexpr int kBacklog = 128;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback_address(0);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd, kBacklog) != 0) {
    throw std::runtime_error("cannot listen on loopback");
  }
  return fd;
}

inline std::uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

inline void send_at_once(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

inline bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

/// Ends a connection, and returns when the other end of it knows: a busy machine takes a while to
/// tell it, and meanwhile a client could still use the connection.
inline void hang_up(int fd) {
  shutdown(fd, SHUT_RDWR);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  tcp_info state{};
  socklen_t size = sizeof state;
  while (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &size) == 0 &&
         state.tcpi_state == TCP_FIN_WAIT1 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
}

/// Appends what comes next; false at the end.
inline bool receive_more(int fd, std::string& bytes) {
  char piece[64 * 1024];
  const ssize_t size = recv(fd, piece, sizeof piece, 0);
  if (size > 0) bytes.append(piece, static_cast<std::size_t>(size));
  return size > 0;
}

}  // namespace oncebox::testing
