#include "cutting_proxy.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "libpq_keywords.hpp"

namespace oncebox::postgresql {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// A file descriptor that is closed with it.
class Descriptor {
 public:
  explicit Descriptor(int fd, const char* what) : fd_(fd) {
    if (fd < 0) throw_errno(what);
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

const sockaddr* as_sockaddr(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

void make_ready_for_use(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0) throw_errno("fcntl");
}

Descriptor listen_on_loopback() {
  Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
  const sockaddr_in address = loopback(0);
  constexpr int kBacklog = 128;
  if (bind(fd.get(), as_sockaddr(address), sizeof address) != 0) throw_errno("bind");
  if (listen(fd.get(), kBacklog) != 0) throw_errno("listen");
  return fd;
}

int port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw_errno("getsockname");
  }
  return ntohs(address.sin_port);
}

/// Returns when the other end knows: a busy machine takes a while to tell it, and meanwhile
/// somebody could still use the connection.
void hang_up(int fd) {
  shutdown(fd, SHUT_RDWR);
  const SteadyTime give_up = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  tcp_info state{};
  socklen_t size = sizeof state;
  while (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &size) == 0 &&
         state.tcpi_state == TCP_FIN_WAIT1 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
}

std::uint32_t read_length(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char byte : bytes.substr(0, 4)) number = number << 8 | static_cast<std::uint8_t>(byte);
  return number;
}

/// Bytes of one direction, from which whole messages are taken.
class MessageBuffer {
 public:
  /// What is there is dealt with, and more can come.
  void append(std::string_view bytes) {
    bytes_.erase(0, taken_);
    taken_ = 0;
    bytes_ += bytes;
  }

  /// The next message; nothing when it is not complete. Valid until the next `append`.
  std::optional<std::string_view> take_message() { return take(kTypeBytes); }
  /// The same for the messages with which a connection begins: they have no type.
  std::optional<std::string_view> take_opening() { return take(0); }
  std::string_view take_all() {
    const std::string_view all = std::string_view(bytes_).substr(taken_);
    taken_ = bytes_.size();
    return all;
  }

 private:
  static constexpr std::size_t kTypeBytes = 1;
  static constexpr std::size_t kLengthBytes = 4;

  std::optional<std::string_view> take(std::size_t type_bytes) {
    const std::string_view rest = std::string_view(bytes_).substr(taken_);
    if (rest.size() < type_bytes + kLengthBytes) return std::nullopt;
    const std::size_t size = type_bytes + read_length(rest.substr(type_bytes));
    if (rest.size() < size) return std::nullopt;
    taken_ += size;
    return rest.substr(0, size);
  }

  std::string bytes_;
  std::size_t taken_ = 0;
};

/// The statements that a client sends together, and then waits for their results.
struct Exchange {
  struct Statement {
    std::size_t begin;  ///< where its execution stands among the bytes
    std::string query;
  };

  std::string bytes = {};
  std::vector<Statement> statements = {};

  [[nodiscard]] bool commits() const {
    return std::any_of(statements.begin(), statements.end(),
                       [](const Statement& one) { return one.query == "COMMIT"; });
  }

  /// Whether no call fails with it: connections are set up, and announcements sent, by whoever
  /// comes first and by threads of their own; and what is lost is rolled back anyway.
  [[nodiscard]] bool is_housekeeping() const {
    if (statements.size() != 1) return false;
    const std::string& query = statements.front().query;
    return query.find("pg_notify") != std::string::npos ||
           query.find("plan_cache_mode") != std::string::npos || query.starts_with("LISTEN") ||
           query == "ROLLBACK";
  }
};

/// A client, and the connection to the server that was made for it.
struct Link {
  enum class Phase {
    opening,   ///< the client has not said yet who it is
    speaking,  ///< messages go to and fro
    opaque,    ///< TLS: nothing can be read
  };

  Descriptor client;
  Descriptor server;
  Phase phase = Phase::opening;
  MessageBuffer from_client = {};
  MessageBuffer from_server = {};
  std::string to_server = {};
  std::deque<std::pair<SteadyTime, std::string>> to_client = {};  ///< each not before its time
  bool asked_for_encryption = false;
  std::map<std::string, std::string, std::less<>> queries = {};  ///< by the statement's name
  std::string bound_query = {};
  Exchange exchange = {};
  bool holds_answers = false;
  std::string held_answers = {};
  bool is_cut = false;
};

// Takes a text that ends with a zero from the front of a message's body.
std::string_view take_text(std::string_view& body) {
  const std::size_t end = std::min(body.find('\0'), body.size());
  const std::string_view text = body.substr(0, end);
  body.remove_prefix(std::min(end + 1, body.size()));
  return text;
}

// Writes what fits; false when the connection is gone.
bool write_some(int fd, std::string& bytes) {
  while (!bytes.empty()) {
    const ssize_t written = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0) return errno == EAGAIN || errno == EINTR;
    bytes.erase(0, static_cast<std::size_t>(written));
  }
  return true;
}

void write_all(int fd, std::string& bytes) {
  constexpr int kPatienceMs = 60'000;
  while (write_some(fd, bytes) && !bytes.empty()) {
    pollfd waiting{.fd = fd, .events = POLLOUT, .revents = 0};
    if (poll(&waiting, 1, kPatienceMs) <= 0) return;
  }
}

}  // namespace

class CuttingProxy::Impl {
 public:
  explicit Impl(const std::string& server)
      : keywords_(read_libpq_url(server)),
        server_port_(std::stoi(keywords_.at("port"))),
        listener_(listen_on_loopback()),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd") {
    keywords_["host"] = "127.0.0.1";
    keywords_["port"] = std::to_string(port_of(listener_.get()));
    keywords_["sslmode"] = "disable";
    keywords_["gssencmode"] = "disable";
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  ~Impl() {
    thread_.request_stop();
    wake();
  }

  [[nodiscard]] std::string connection() const { return to_connection_string(keywords_); }

  /// Changes what the proxy does from now on.
  template <class Change>
  void tell(Change change) {
    const std::lock_guard lock(mutex_);
    change(plan_);
    wake();
  }

  void cut_all() {
    const std::lock_guard lock(mutex_);
    // Closing alone would not do while the thread waits for them.
    for (const Link& link : links_) {
      hang_up(link.client.get());
      hang_up(link.server.get());
    }
    links_.clear();
    wake();
  }

  [[nodiscard]] std::size_t connections() const {
    const std::lock_guard lock(mutex_);
    return links_.size();
  }

  struct Plan {
    std::optional<int> cut_before_step = {};
    std::optional<int> cut_answer_after = {};
    bool struck = false;
    bool is_frozen = false;
    std::chrono::milliseconds delay{0};
  };

 private:
  void wake() const {
    const std::uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
  }

  void run(const std::stop_token& stop);
  [[nodiscard]] std::vector<pollfd> what_to_wait_for() const;
  [[nodiscard]] int milliseconds_to_wait() const;
  void accept_clients();
  void serve(Link& link, short client_events, short server_events);
  void read_client(Link& link);
  void read_server(Link& link);
  void on_client_message(Link& link, std::string_view message);
  void forward(Link& link, const Exchange& exchange);
  void on_server_message(Link& link, std::string_view message);
  void send_to_client(Link& link, std::string_view bytes) const;
  void write_to_client(Link& link) const;
  /// Counts a step; true when the failure is to strike in its place.
  bool strikes_here();
  void cut(Link& link) const;

  LibpqKeywords keywords_;
  const int server_port_;
  const Descriptor listener_;
  const Descriptor wake_;
  mutable std::mutex mutex_;  ///< held by the thread whenever it does not wait
  Plan plan_;
  std::list<Link> links_;
  std::jthread thread_;  // last: it uses everything
};

void CuttingProxy::Impl::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    std::vector<pollfd> waiting = what_to_wait_for();
    const int timeout_ms = milliseconds_to_wait();
    lock.unlock();
    poll(waiting.data(), waiting.size(), timeout_ms);
    lock.lock();
    std::uint64_t ignored = 0;
    (void)!read(wake_.get(), &ignored, sizeof ignored);
    // What was waited for is stale when somebody changed the plan meanwhile, and is waited for
    // anew.
    if (!plan_.is_frozen && waiting.size() == 2 + 2 * links_.size()) {
      std::size_t next = 2;
      for (Link& link : links_) {
        serve(link, waiting[next].revents, waiting[next + 1].revents);
        next += 2;
      }
      links_.remove_if([](const Link& link) { return link.is_cut; });
      if (waiting[1].revents != 0) accept_clients();
    }
  }
}

std::vector<pollfd> CuttingProxy::Impl::what_to_wait_for() const {
  std::vector<pollfd> waiting{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  if (plan_.is_frozen) return waiting;
  waiting.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const Link& link : links_) {
    const bool has_answer = !link.to_client.empty() && link.to_client.front().first <= now;
    const auto client = static_cast<short>(has_answer ? POLLIN | POLLOUT : POLLIN);
    const auto server = static_cast<short>(link.to_server.empty() ? POLLIN : POLLIN | POLLOUT);
    waiting.push_back({.fd = link.client.get(), .events = client, .revents = 0});
    waiting.push_back({.fd = link.server.get(), .events = server, .revents = 0});
  }
  return waiting;
}

int CuttingProxy::Impl::milliseconds_to_wait() const {
  if (plan_.is_frozen) return -1;
  const SteadyTime now = std::chrono::steady_clock::now();
  int shortest = -1;
  for (const Link& link : links_) {
    if (link.to_client.empty() || link.to_client.front().first <= now) continue;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(link.to_client.front().first - now);
    const auto count = static_cast<int>(left.count());
    shortest = shortest < 0 ? count : std::min(shortest, count);
  }
  return shortest;
}

void CuttingProxy::Impl::accept_clients() {
  for (;;) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    Descriptor client(fd, "accept");
    Descriptor server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    const sockaddr_in address = loopback(server_port_);
    // A server that does not run shows itself to the client as one that hangs up.
    if (connect(server.get(), as_sockaddr(address), sizeof address) != 0) continue;
    make_ready_for_use(client.get());
    make_ready_for_use(server.get());
    links_.push_back({.client = std::move(client), .server = std::move(server)});
  }
}

void CuttingProxy::Impl::serve(Link& link, short client_events, short server_events) {
  if (!link.is_cut && (client_events & ~POLLOUT) != 0) read_client(link);
  if (!link.is_cut && (server_events & ~POLLOUT) != 0) read_server(link);
  if (link.is_cut) return;
  if (!write_some(link.server.get(), link.to_server)) cut(link);
  write_to_client(link);
}

void CuttingProxy::Impl::read_client(Link& link) {
  std::array<char, 64 * 1024> bytes{};
  const ssize_t size = recv(link.client.get(), bytes.data(), bytes.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    cut(link);
    return;
  }
  link.from_client.append({bytes.data(), static_cast<std::size_t>(size)});
  while (link.phase == Link::Phase::opening) {
    constexpr std::uint32_t kTlsRequest = 80'877'103;
    constexpr std::uint32_t kGssRequest = 80'877'104;
    const auto opening = link.from_client.take_opening();
    if (!opening) return;
    const std::uint32_t code = read_length(opening->substr(4));
    link.asked_for_encryption = code == kTlsRequest || code == kGssRequest;
    if (!link.asked_for_encryption) link.phase = Link::Phase::speaking;
    link.to_server += *opening;
  }
  if (link.phase == Link::Phase::opaque) link.to_server += link.from_client.take_all();
  if (link.phase != Link::Phase::speaking) return;
  while (const auto message = link.from_client.take_message()) {
    on_client_message(link, *message);
    if (link.is_cut) return;
  }
}

void CuttingProxy::Impl::on_client_message(Link& link, std::string_view message) {
  const char type = message.front();
  std::string_view body = message.substr(5);
  if (type == 'P') {
    const std::string_view name = take_text(body);
    link.queries.insert_or_assign(std::string(name), std::string(take_text(body)));
  }
  if (type == 'B') {
    take_text(body);  // the portal
    link.bound_query = link.queries[std::string(take_text(body))];
  }
  if (type == 'E')
    link.exchange.statements.push_back({link.exchange.bytes.size(), link.bound_query});
  link.exchange.bytes += message;
  const bool is_part = std::string_view("PBDEC").find(type) != std::string_view::npos;
  if (!is_part) forward(link, std::exchange(link.exchange, {}));
}

void CuttingProxy::Impl::forward(Link& link, const Exchange& exchange) {
  if (exchange.statements.empty() || exchange.is_housekeeping()) {
    link.to_server += exchange.bytes;
    return;
  }
  for (const Exchange::Statement& statement : exchange.statements) {
    if (!strikes_here()) continue;
    link.to_server += exchange.bytes.substr(0, statement.begin);
    return cut(link);
  }
  if (!exchange.commits() && strikes_here()) {
    constexpr std::size_t kSyncBytes = 5;
    link.to_server += exchange.bytes.substr(0, exchange.bytes.size() - kSyncBytes);
    return cut(link);
  }
  link.to_server += exchange.bytes;
  link.holds_answers = plan_.cut_answer_after.has_value();
}

bool CuttingProxy::Impl::strikes_here() {
  if (!plan_.cut_before_step) return false;
  if ((*plan_.cut_before_step)-- > 0) return false;
  plan_.cut_before_step.reset();
  plan_.struck = true;
  return true;
}

void CuttingProxy::Impl::read_server(Link& link) {
  std::array<char, 64 * 1024> bytes{};
  const ssize_t size = recv(link.server.get(), bytes.data(), bytes.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    cut(link);
    return;
  }
  const std::string_view received(bytes.data(), static_cast<std::size_t>(size));
  if (link.phase != Link::Phase::speaking) {
    if (link.asked_for_encryption && received == "S") link.phase = Link::Phase::opaque;
    return send_to_client(link, received);
  }
  link.from_server.append(received);
  while (const auto message = link.from_server.take_message()) {
    on_server_message(link, *message);
    if (link.is_cut) return;
  }
}

void CuttingProxy::Impl::on_server_message(Link& link, std::string_view message) {
  if (!link.holds_answers) return send_to_client(link, message);
  link.held_answers += message;
  if (message.front() != 'Z') return;
  const bool is_over = message.back() == 'I' && plan_.cut_answer_after;
  if (is_over && (*plan_.cut_answer_after)-- == 0) {
    plan_.cut_answer_after.reset();
    plan_.struck = true;
    link.to_client.clear();
    return cut(link);
  }
  link.holds_answers = false;
  send_to_client(link, link.held_answers);
  link.held_answers.clear();
}

void CuttingProxy::Impl::send_to_client(Link& link, std::string_view bytes) const {
  link.to_client.emplace_back(std::chrono::steady_clock::now() + plan_.delay, bytes);
}

void CuttingProxy::Impl::write_to_client(Link& link) const {
  const SteadyTime now = std::chrono::steady_clock::now();
  while (!link.is_cut && !link.to_client.empty() && link.to_client.front().first <= now) {
    std::string& bytes = link.to_client.front().second;
    if (!write_some(link.client.get(), bytes)) return cut(link);
    if (!bytes.empty()) return;
    link.to_client.pop_front();
  }
}

void CuttingProxy::Impl::cut(Link& link) const {
  // Either side has said what is on its way before it sees the other one go.
  write_all(link.server.get(), link.to_server);
  for (auto& [time, bytes] : link.to_client) write_all(link.client.get(), bytes);
  link.is_cut = true;
}

CuttingProxy::CuttingProxy(const std::string& server) : impl_(std::make_unique<Impl>(server)) {}

CuttingProxy::~CuttingProxy() = default;

std::string CuttingProxy::connection() const { return impl_->connection(); }

void CuttingProxy::cut_before(int step) {
  impl_->tell([&](Impl::Plan& plan) {
    plan.struck = false;
    plan.cut_before_step = step;
  });
}

void CuttingProxy::cut_answer(int skip) {
  impl_->tell([&](Impl::Plan& plan) {
    plan.struck = false;
    plan.cut_answer_after = skip;
  });
}

bool CuttingProxy::disarm() {
  bool struck = false;
  impl_->tell([&](Impl::Plan& plan) {
    struck = plan.struck;
    plan.struck = false;
    plan.cut_before_step.reset();
    plan.cut_answer_after.reset();
  });
  return struck;
}

void CuttingProxy::cut_all() { impl_->cut_all(); }

void CuttingProxy::freeze() {
  impl_->tell([](Impl::Plan& plan) { plan.is_frozen = true; });
}

void CuttingProxy::thaw() {
  impl_->tell([](Impl::Plan& plan) { plan.is_frozen = false; });
}

void CuttingProxy::delay_answers(std::chrono::milliseconds by) {
  impl_->tell([&](Impl::Plan& plan) { plan.delay = by; });
}

std::size_t CuttingProxy::connections() const { return impl_->connections(); }

}  // namespace oncebox::postgresql
