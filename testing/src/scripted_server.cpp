#include "oncebox/testing/scripted_server.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "loopback.hpp"

namespace oncebox::testing {

namespace {

constexpr std::chrono::seconds kSoon{60};  // only a failing test waits as long

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

ReceivedRequest parse_head(const std::string& head) {
  ReceivedRequest request;
  const std::size_t first_space = head.find(' ');
  const std::size_t second_space = head.find(' ', first_space + 1);
  request.method = head.substr(0, first_space);
  request.target = head.substr(first_space + 1, second_space - first_space - 1);
  std::size_t line = head.find("\r\n") + 2;
  while (line < head.size()) {
    const std::size_t end = head.find("\r\n", line);
    const std::size_t colon = head.find(": ", line);
    if (end == std::string::npos || colon == std::string::npos || colon > end) break;
    request.fields[lower(head.substr(line, colon - line))] =
        head.substr(colon + 2, end - colon - 2);
    line = end + 2;
  }
  return request;
}

// The next request of a connection; nothing when it has ended. `rest` is what was read too much.
std::optional<ReceivedRequest> receive(int fd, std::string& rest) {
  while (rest.find("\r\n\r\n") == std::string::npos) {
    if (!receive_more(fd, rest)) return std::nullopt;
  }
  const std::size_t head_size = rest.find("\r\n\r\n") + 4;
  ReceivedRequest request = parse_head(rest.substr(0, head_size));
  const auto length = request.fields.find("content-length");
  const std::size_t body_size = length == request.fields.end() ? 0 : std::stoul(length->second);
  while (rest.size() < head_size + body_size) {
    if (!receive_more(fd, rest)) return std::nullopt;
  }
  request.body = rest.substr(head_size, body_size);
  rest.erase(0, head_size + body_size);
  return request;
}

// Nothing that was sent may be read any more. The number stays taken, for whoever closes it.
void reset(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  connect(fd, &nobody, sizeof nobody);
}

// False when the client has gone.
bool drip(int fd, const Reaction& reaction) {
  send_at_once(fd);
  for (const char byte : reaction.body) {
    pollfd end{.fd = fd, .events = POLLRDHUP, .revents = 0};
    if (poll(&end, 1, static_cast<int>(reaction.pause.count())) != 0) return false;
    if (!send_all(fd, std::string_view(&byte, 1))) return false;
  }
  return true;
}

std::string head_of(const Reaction& reaction, const std::string& length) {
  std::string head = "HTTP/1.1 " + std::to_string(reaction.status) +
                     " Scripted\r\nContent-Type: application/json\r\n";
  for (const auto& [name, value] : reaction.fields) head += name + ": " + value + "\r\n";
  return head + length + "\r\n";
}

}  // namespace

class ScriptedServer::Impl {
 public:
  explicit Impl(Script script)
      : script_(std::move(script)),
        listener_(listen_on_loopback()),
        acceptor_([this] { accept_all(); }) {}

  ~Impl() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    cut_all();
    for (Connection& connection : connections_) {
      connection.thread.join();
      close(connection.fd);
    }
  }

  [[nodiscard]] int port() const { return port_of(listener_); }

  void cut_all() {
    const std::lock_guard lock(mutex_);
    for (const Connection& connection : connections_) hang_up(connection.fd);
  }

  [[nodiscard]] std::vector<ReceivedRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  [[nodiscard]] std::size_t connections() const {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }

  [[nodiscard]] bool wait_for_requests(std::size_t count) const {
    std::unique_lock lock(mutex_);
    return received_.wait_for(lock, kSoon, [&] { return requests_.size() >= count; });
  }

  [[nodiscard]] bool wait_for_ends(std::size_t count) const {
    std::unique_lock lock(mutex_);
    return received_.wait_for(lock, kSoon, [&] { return ended_ >= count; });
  }

 private:
  struct Connection {
    int fd;
    std::thread thread;
  };

  void accept_all() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      const std::size_t number = connections_.size();
      connections_.push_back({fd, std::thread([this, fd, number] { serve(fd, number); })});
    }
  }

  void serve(int fd, std::size_t number) {
    answer_all(fd, number);
    const std::lock_guard lock(mutex_);
    ++ended_;
    received_.notify_all();
  }

  void answer_all(int fd, std::size_t number) {
    std::string rest;
    while (std::optional<ReceivedRequest> request = receive(fd, rest)) {
      request->connection = number;
      Reaction reaction;
      {
        const std::lock_guard script_lock(script_mutex_);
        reaction = script_(*request);
      }
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(std::move(*request));
      }
      received_.notify_all();
      if (!react(fd, reaction)) return;
    }
  }

  // True when the connection goes on.
  [[nodiscard]] bool react(int fd, const Reaction& reaction) const {
    switch (reaction.kind) {
      case Reaction::Kind::answer:
        send_all(fd, head_of(reaction,
                             "Content-Length: " + std::to_string(reaction.body.size()) + "\r\n") +
                         reaction.body);
        return true;
      case Reaction::Kind::cut_off:
        send_all(fd, head_of(reaction, "Content-Length: 1000000\r\n") + reaction.body);
        shutdown(fd, SHUT_RDWR);
        return false;
      case Reaction::Kind::stream:
        send_all(fd, head_of(reaction, "Connection: close\r\n") + reaction.body);
        return true;
      case Reaction::Kind::flood:
        send_all(fd, head_of(reaction, "Connection: close\r\n"));
        while (send_all(fd, reaction.body)) continue;
        return false;
      case Reaction::Kind::hang_up_for_good:
        // First, so that a client that notices the end and comes back finds no server.
        shutdown(listener_, SHUT_RDWR);
        [[fallthrough]];
      case Reaction::Kind::hang_up:
        shutdown(fd, SHUT_RDWR);
        return false;
      case Reaction::Kind::hang:
        return true;
      case Reaction::Kind::reset:
        reset(fd);
        return false;
      case Reaction::Kind::raw:
        return send_all(fd, reaction.body);
      case Reaction::Kind::drip:
        return drip(fd, reaction);
    }
    return false;
  }

  const Script script_;
  const int listener_;
  std::mutex script_mutex_;
  mutable std::mutex mutex_;
  mutable std::condition_variable received_;
  std::vector<ReceivedRequest> requests_;
  std::size_t ended_ = 0;
  std::list<Connection> connections_;
  std::thread acceptor_;  // last: it uses everything
};

ScriptedServer::ScriptedServer(Script script) : impl_(std::make_unique<Impl>(std::move(script))) {}
ScriptedServer::~ScriptedServer() = default;

std::string ScriptedServer::url() const {
  return "http://127.0.0.1:" + std::to_string(impl_->port());
}
std::vector<ReceivedRequest> ScriptedServer::requests() const { return impl_->requests(); }
std::size_t ScriptedServer::connections() const { return impl_->connections(); }
bool ScriptedServer::wait_for_requests(std::size_t count) const {
  return impl_->wait_for_requests(count);
}
bool ScriptedServer::wait_for_ends(std::size_t count) const { return impl_->wait_for_ends(count); }
void ScriptedServer::cut_all() { impl_->cut_all(); }

std::string dead_url() {
  // Nobody else is given a port that was just in use.
  const int fd = listen_on_loopback();
  const std::string url = "http://127.0.0.1:" + std::to_string(port_of(fd));
  close(fd);
  return url;
}

}  // namespace oncebox::testing
