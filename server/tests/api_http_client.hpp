#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api_fixture.hpp"
#include "raw_client.hpp"

namespace oncebox::server {

/// Makes the calls of a test over a socket, one after the other on one connection. Throws
/// `std::runtime_error` when the connection breaks or nothing comes.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port) : client_(port) {}

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
  std::string read_until(std::string_view text) { return client_.peek_until(text); }

 private:
  void send(std::string_view bytes);

  RawClient client_;
};

}  // namespace oncebox::server
