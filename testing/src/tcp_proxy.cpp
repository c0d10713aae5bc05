#include "oncebox/testing/tcp_proxy.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "loopback.hpp"

namespace oncebox::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A file descriptor that is closed with it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "no file descriptor");
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

void never_block(int fd) { fcntl(fd, F_SETFL, O_NONBLOCK); }

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

/// A link with the bytes that are still to be sent.
class OpenLink final : public TcpProxy::Link {
 public:
  OpenLink(Descriptor client, Descriptor server, const milliseconds& delay,
           std::unique_ptr<TcpProxy::Conversation> conversation)
      : client_(std::move(client)),
        server_(std::move(server)),
        delay_(delay),
        conversation_(std::move(conversation)) {
    for (const int fd : {client_.get(), server_.get()}) {
      send_at_once(fd);
      never_block(fd);
    }
  }

  void send_to_server(std::string_view bytes) override { to_server_ += bytes; }
  void send_to_client(std::string_view bytes) override {
    to_client_.emplace_back(steady_clock::now() + delay_, bytes);
  }
  void drop_answers() override { to_client_.clear(); }
  void cut() override {
    write_all(server_.get(), to_server_);
    for (auto& [time, bytes] : to_client_) write_all(client_.get(), bytes);
    is_cut_ = true;
  }
  [[nodiscard]] bool is_cut() const noexcept override { return is_cut_; }

  void hang_up() const {
    testing::hang_up(client_.get());
    testing::hang_up(server_.get());
  }

  /// When the next answer may be sent, if there is one.
  [[nodiscard]] std::optional<steady_clock::time_point> next_answer() const {
    if (to_client_.empty()) return std::nullopt;
    return to_client_.front().first;
  }

  [[nodiscard]] std::array<pollfd, 2> what_to_wait_for(steady_clock::time_point now) const {
    const bool has_answer = next_answer().value_or(now + milliseconds{1}) <= now;
    const auto client = static_cast<short>(has_answer ? POLLIN | POLLOUT : POLLIN);
    const auto server = static_cast<short>(to_server_.empty() ? POLLIN : POLLIN | POLLOUT);
    return {pollfd{.fd = client_.get(), .events = client, .revents = 0},
            pollfd{.fd = server_.get(), .events = server, .revents = 0}};
  }

  void serve(short client_events, short server_events) {
    if (!is_cut_ && (client_events & ~POLLOUT) != 0) {
      read(client_.get(), &TcpProxy::Conversation::on_client_bytes);
    }
    if (!is_cut_ && (server_events & ~POLLOUT) != 0) {
      read(server_.get(), &TcpProxy::Conversation::on_server_bytes);
    }
    if (is_cut_) return;
    if (!write_some(server_.get(), to_server_)) return cut();
    write_answers();
  }

 private:
  void read(int fd, void (TcpProxy::Conversation::*on_bytes)(std::string_view, TcpProxy::Link&)) {
    std::array<char, 64 * 1024> bytes{};
    const ssize_t size = recv(fd, bytes.data(), bytes.size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return cut();
    ((*conversation_).*on_bytes)({bytes.data(), static_cast<std::size_t>(size)}, *this);
  }

  void write_answers() {
    const auto now = steady_clock::now();
    while (!to_client_.empty() && to_client_.front().first <= now) {
      std::string& bytes = to_client_.front().second;
      if (!write_some(client_.get(), bytes)) return cut();
      if (!bytes.empty()) return;
      to_client_.pop_front();
    }
  }

  Descriptor client_;
  Descriptor server_;
  const milliseconds& delay_;
  const std::unique_ptr<TcpProxy::Conversation> conversation_;
  std::string to_server_;
  std::deque<std::pair<steady_clock::time_point, std::string>> to_client_;  ///< not before its time
  bool is_cut_ = false;
};

}  // namespace

class TcpProxy::Impl {
 public:
  Impl(std::uint16_t server_port, Begin begin)
      : server_port_(server_port),
        begin_(std::move(begin)),
        listener_(listen_on_loopback()),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    never_block(listener_.get());
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  ~Impl() {
    thread_.request_stop();
    wake();
  }

  [[nodiscard]] std::uint16_t port() const { return port_of(listener_.get()); }

  /// Runs `change` while the thread waits, which then looks at everything anew.
  template <class Change>
  void tell(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    wake();
  }

  void cut_all() {
    tell([this] {
      // Closing alone would not do while the thread waits for them.
      for (const OpenLink& link : links_) link.hang_up();
      links_.clear();
    });
  }
  void set_frozen(bool is_frozen) {
    tell([&] { is_frozen_ = is_frozen; });
  }
  void set_delay(milliseconds delay) {
    tell([&] { delay_ = delay; });
  }
  [[nodiscard]] std::size_t connections() const {
    const std::lock_guard lock(mutex_);
    return links_.size();
  }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
  }

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      std::vector<pollfd> waiting = what_to_wait_for();
      const int timeout_ms = milliseconds_to_wait();
      lock.unlock();
      poll(waiting.data(), waiting.size(), timeout_ms);
      lock.lock();
      std::uint64_t ignored = 0;
      (void)!::read(wake_.get(), &ignored, sizeof ignored);
      // After a change from outside, `waiting` may be about links that are gone.
      if (!is_frozen_ && waiting.size() == 2 + 2 * links_.size()) serve(waiting);
    }
  }

  [[nodiscard]] std::vector<pollfd> what_to_wait_for() const {
    std::vector<pollfd> waiting{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    if (is_frozen_) return waiting;
    waiting.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
    const auto now = steady_clock::now();
    for (const OpenLink& link : links_) {
      const auto of_link = link.what_to_wait_for(now);
      waiting.insert(waiting.end(), of_link.begin(), of_link.end());
    }
    return waiting;
  }

  [[nodiscard]] int milliseconds_to_wait() const {
    if (is_frozen_) return -1;
    const auto now = steady_clock::now();
    int shortest = -1;
    for (const OpenLink& link : links_) {
      const auto next = link.next_answer();
      if (!next || *next <= now) continue;
      const auto left = static_cast<int>(std::chrono::ceil<milliseconds>(*next - now).count());
      shortest = shortest < 0 ? left : std::min(shortest, left);
    }
    return shortest;
  }

  void serve(const std::vector<pollfd>& waiting) {
    std::size_t next = 2;
    for (OpenLink& link : links_) {
      link.serve(waiting[next].revents, waiting[next + 1].revents);
      next += 2;
    }
    links_.remove_if([](const OpenLink& link) { return link.is_cut(); });
    if (waiting[1].revents != 0) accept_clients();
  }

  void accept_clients() {
    for (;;) {
      const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      Descriptor client(fd);
      Descriptor server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in address = loopback_address(server_port_);
      // A server that does not run shows itself to the client as one that hangs up.
      if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        continue;
      }
      links_.emplace_back(std::move(client), std::move(server), delay_, begin_());
    }
  }

  const std::uint16_t server_port_;
  const Begin begin_;
  const Descriptor listener_;
  const Descriptor wake_;
  mutable std::mutex mutex_;  ///< held by the thread whenever it does not wait
  bool is_frozen_ = false;
  milliseconds delay_{0};
  std::list<OpenLink> links_;
  std::jthread thread_;  // last: it uses everything
};

TcpProxy::TcpProxy(std::uint16_t server_port, Begin begin)
    : impl_(std::make_unique<Impl>(server_port, std::move(begin))) {}
TcpProxy::~TcpProxy() = default;

std::uint16_t TcpProxy::port() const { return impl_->port(); }
void TcpProxy::between_conversations(const std::function<void()>& change) { impl_->tell(change); }
void TcpProxy::cut_all() { impl_->cut_all(); }
void TcpProxy::freeze() { impl_->set_frozen(true); }
void TcpProxy::thaw() { impl_->set_frozen(false); }
void TcpProxy::delay_answers(std::chrono::milliseconds by) { impl_->set_delay(by); }
std::size_t TcpProxy::connections() const { return impl_->connections(); }

}  // namespace oncebox::testing
