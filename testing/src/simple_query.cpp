#include "simple_query.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>

#include "oncebox/error.hpp"

namespace oncebox::testing {

namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorCode::unavailable, text); }

std::string big_endian(std::uint32_t number) {
  const std::uint32_t bytes = htonl(number);
  std::string text(sizeof(bytes), '\0');
  std::memcpy(text.data(), &bytes, sizeof(bytes));
  return text;
}

// Reads the fields of a message from its front.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }

  std::string_view take(std::size_t size) {
    if (size > rest_.size()) refuse("the server sent a message that ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::uint32_t number(std::size_t size) {
    std::uint32_t number = 0;
    for (const char byte : take(size)) number = number << 8U | static_cast<unsigned char>(byte);
    return number;
  }

  std::string_view text() {
    const std::string_view taken = take(rest_.find('\0'));
    take(1);
    return taken;
  }

 private:
  std::string_view rest_;
};

class Connection {
 public:
  explicit Connection(const std::string& socket_path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket_path.size() >= sizeof(address.sun_path)) refuse("too long a path: " + socket_path);
    socket_path.copy(address.sun_path, socket_path.size());
    file_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file_ < 0) refuse("cannot make a socket");
    if (connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      const std::string reason = std::generic_category().message(errno);
      close(file_);
      refuse("cannot connect to " + socket_path + ": " + reason);
    }
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(file_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  }
  ~Connection() { close(file_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// A message without its length, which counts itself.
  void send(const std::string& type, const std::string& body) const {
    const std::string message =
        type + big_endian(static_cast<std::uint32_t>(body.size() + 4)) + body;
    std::string_view rest = message;
    while (!rest.empty()) {
      const ssize_t sent = ::send(file_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) refuse("the server closed the connection");
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  struct Reply {
    char type = 0;
    std::string body;
  };
  [[nodiscard]] Reply receive() const {
    const std::string head = read(5);
    Fields fields(head);
    const char type = fields.take(1).front();
    return {.type = type, .body = read(fields.number(4) - 4)};
  }

 private:
  [[nodiscard]] std::string read(std::size_t size) const {
    std::string text(size, '\0');
    std::size_t filled = 0;
    while (filled < size) {
      const ssize_t got = recv(file_, text.data() + filled, size - filled, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) refuse("the server closed the connection, or does not answer");
      filled += static_cast<std::size_t>(got);
    }
    return text;
  }

  int file_ = -1;
};

std::string error_text(std::string_view body) {
  Fields fields(body);
  while (!fields.empty()) {
    const char kind = fields.take(1).front();
    if (kind == '\0') break;
    const std::string_view text = fields.text();
    if (kind == 'M') return std::string(text);
  }
  return "an error without a text";
}

std::string row_text(std::string_view body) {
  Fields fields(body);
  const std::uint32_t columns = fields.number(2);
  std::string row;
  for (std::uint32_t i = 0; i < columns; ++i) {
    if (i > 0) row += '|';
    const std::uint32_t size = fields.number(4);
    constexpr std::uint32_t kNull = 0xffffffff;
    if (size != kNull) row += fields.take(size);
  }
  return row;
}

// Everything up to "ready for query". The server's first complaint is thrown.
std::string read_answer(const Connection& connection) {
  std::string rows;
  bool first = true;
  std::string error;
  for (;;) {
    const auto [type, body] = connection.receive();
    if (type == 'Z') break;
    if (type == 'R' && Fields(body).number(4) != 0) refuse("the server wants a password");
    if (type == 'E') {
      // Before a session begins, the server closes the connection after it.
      if (error.empty()) error = error_text(body);
      if (body.starts_with("SFATAL")) break;
    }
    if (type == 'D') {
      if (!first) rows += '\n';
      first = false;
      rows += row_text(body);
    }
  }
  if (!error.empty()) refuse(error);
  return rows;
}

}  // namespace

std::string run_simple_query(const std::string& socket_path, const std::string& database,
                             const std::string& sql) {
  const Connection connection(socket_path);
  constexpr std::uint32_t kProtocol3 = 3U << 16U;
  using namespace std::string_literals;
  connection.send("", big_endian(kProtocol3) + "user\0postgres\0database\0"s + database + "\0\0"s);
  read_answer(connection);
  connection.send("Q", sql + "\0"s);
  std::string rows = read_answer(connection);
  connection.send("X", "");
  return rows;
}

}  // namespace oncebox::testing
