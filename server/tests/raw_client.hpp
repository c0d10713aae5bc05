#pragma once

#include <openssl/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_message.hpp"

namespace oncebox::server {

/// An answer as it came over the socket.
struct RawResponse {
  int status = 0;
  Fields fields = {};
  std::string body = {};  ///< without the framing of chunks
  std::string head = {};

  [[nodiscard]] std::string field(std::string_view name) const {
    return std::string(fields.get(name).value_or(std::string_view{}));
  }
};

/// What a client needs for TLS.
struct TlsClientOptions {
  std::filesystem::path ca = {};
  std::filesystem::path certificate = {};  ///< empty: shows none
  std::filesystem::path key = {};
};

/// A client that sends the bytes it is told to, whole or in pieces, and reads what comes. Every
/// wait ends in an exception after a minute.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port);
  /// Comes from this address of the machine, such as 127.0.0.2.
  RawClient(std::uint16_t port, const std::string& from);
  RawClient(std::uint16_t port, const TlsClientOptions& tls);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;

  /// False when the other side does not take it any more.
  bool send(std::string_view bytes);
  /// Reads one answer. `to_head` says that it has no body, whatever it tells of its length. Nothing
  /// when the connection ends first.
  [[nodiscard]] std::optional<RawResponse> try_receive(bool to_head = false);
  [[nodiscard]] RawResponse receive(bool to_head = false);
  /// All that comes until the connection ends.
  [[nodiscard]] std::string receive_rest();
  /// Whether there are bytes to receive, or the connection has ended; waits so long for that.
  [[nodiscard]] bool has_news(std::chrono::milliseconds within) const;
  /// Waits until so many bytes are there; they stay to be received.
  [[nodiscard]] std::string peek(std::size_t bytes);

  /// Waits until what is there has this text in it; all of it stays to be received.
  [[nodiscard]] std::string peek_until(std::string_view text);

  RawResponse ask(std::string_view bytes) {
    send(bytes);
    return receive();
  }

  void half_close();
  /// Ends the connection by a reset, as a client that crashes does.
  void reset();
  void set_receive_buffer(int bytes);
  /// The common name of the server's certificate.
  [[nodiscard]] std::string server_name() const;

 private:
  bool fill();  ///< reads some more; false at the end
  std::optional<std::string> take_line();
  std::string take(std::size_t bytes);
  std::string take_chunks();

  int socket_ = -1;
  SSL_CTX* context_ = nullptr;
  SSL* session_ = nullptr;
  std::string buffer_;
};

/// An authority of its own, and what it signs: throw-away certificates.
class TestAuthority {
 public:
  /// Writes `ca.crt` into the folder.
  explicit TestAuthority(std::filesystem::path folder);
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  struct Files {
    std::filesystem::path certificate;
    std::filesystem::path key;
  };
  /// Writes `FILE.crt` and `FILE.key` for a subject of this common name.
  Files sign(const std::string& file, const std::string& common_name);
  [[nodiscard]] std::filesystem::path ca() const { return folder_ / "ca.crt"; }

 private:
  const std::filesystem::path folder_;
  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
  long serial_ = 1;
};

}  // namespace oncebox::server
