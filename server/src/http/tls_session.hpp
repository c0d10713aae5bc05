#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace oncebox::server {

/// The server's side of TLS on a socket that does not block. It borrows the socket and never waits:
/// each step says what to wait for before it is taken again. While nothing is under way it keeps no
/// buffers, because there are many connections.
class TlsSession {
 public:
  TlsSession(SSL_CTX* context, int descriptor);

  enum class Step { done, wait_to_read, wait_to_write, end_of_file, failed };

  [[nodiscard]] Step shake_hands() noexcept;
  /// `bytes` is how many were read when it is done.
  [[nodiscard]] Step read(char* data, std::size_t size, std::size_t& bytes) noexcept;
  /// Writes a part, of which `bytes` is the size when it is done. When it has to wait it must be
  /// taken again with the same bytes.
  [[nodiscard]] Step write(const char* data, std::size_t size, std::size_t& bytes) noexcept;
  /// Says goodbye, and hears the other side's.
  [[nodiscard]] Step say_goodbye() noexcept;

  /// Whether there may be something to read without another byte from the socket.
  [[nodiscard]] bool has_pending() const noexcept;
  /// The common name of the certificate that the client showed, if it did.
  [[nodiscard]] std::optional<std::string> certificate_name() const;

 private:
  struct End {
    void operator()(SSL* session) const noexcept;
  };

  [[nodiscard]] Step step_of(int result) const noexcept;

  std::unique_ptr<SSL, End> session_;
};

}  // namespace oncebox::server
