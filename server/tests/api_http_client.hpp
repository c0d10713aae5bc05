#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api_fixture.hpp"

namespace oncebox::server {

/// A client of the service over a socket, one request after the other on one connection. Throws
/// `std::runtime_error` when the connection breaks or nothing comes.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Sends a request and reads its answer.
  Response call(const TestCall& call);

  /// Sends a request whose answer is read later.
  void begin(const TestCall& call);
  Response finish();

  // A body whose length nobody knows yet.

  void begin_chunked(const TestCall& call);
  void send_chunk(std::string_view bytes);
  void end_chunks() { send("0\r\n\r\n"); }

  /// Reads until what came contains this text, and answers all of it.
  std::string read_until(std::string_view text);

 private:
  void send(std::string_view bytes);
  void receive();
  [[nodiscard]] std::string take_line();
  [[nodiscard]] std::string take_bytes(std::size_t count);

  int socket_ = -1;
  std::string received_;
};

}  // namespace oncebox::server
