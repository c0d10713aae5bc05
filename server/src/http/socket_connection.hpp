#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "http/connection.hpp"

namespace boost::asio::ssl {
class context;
}

namespace oncebox::server {

/// An accepted socket, by its descriptor, and who is at the other end. Closes it, unless it was
/// taken.
class AcceptedSocket {
 public:
  /// Takes the descriptor, so that whatever fails later closes it.
  AcceptedSocket(int descriptor, bool is_ipv6) noexcept
      : descriptor_(descriptor), is_ipv6_(is_ipv6) {}
  ~AcceptedSocket();
  AcceptedSocket(AcceptedSocket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        is_ipv6_(other.is_ipv6_),
        peer_(std::move(other.peer_)) {}
  AcceptedSocket(const AcceptedSocket&) = delete;
  AcceptedSocket& operator=(const AcceptedSocket&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_ipv6() const noexcept { return is_ipv6_; }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  void set_peer(std::string peer) noexcept { peer_ = std::move(peer); }
  void taken() noexcept { descriptor_ = -1; }

 private:
  int descriptor_;
  const bool is_ipv6_;
  std::string peer_;
};

/// What a connection takes in memory at most while it shakes hands or does nothing, with a small
/// request and its answer; by measurement, see docs/configuration.md.
inline constexpr std::size_t kPlainConnectionBytes = std::size_t{16} << 10;
inline constexpr std::size_t kTlsConnectionBytes = std::size_t{48} << 10;

/// Makes the connection of an accepted socket, which it takes; with TLS when there is a context. To
/// be called in the loop's thread.
[[nodiscard]] std::shared_ptr<Connection> make_socket_connection(
    std::shared_ptr<EventLoop> loop, HttpService& service, AcceptedSocket& socket,
    std::shared_ptr<boost::asio::ssl::context> tls);

}  // namespace oncebox::server
