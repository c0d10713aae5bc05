#include "http/http_server.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "http/connection.hpp"
#include "http/event_loop.hpp"
#include "http/giving_way.hpp"
#include "http/socket_connection.hpp"
#include "http/tls_context.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace asio = boost::asio;
using SystemError = boost::system::error_code;
using Tcp = asio::ip::tcp;

namespace {

/// How long to wait when the system has no descriptors left.
constexpr std::chrono::milliseconds kAcceptPause{100};
asio::ip::address read_address(const std::string& host) {
  SystemError error;
  const auto address = asio::ip::make_address(host, error);
  if (error) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("listen.host: \"{}\" is not an address", host));
  }
  return address;
}

/// Often enough for the shortest deadline, and seldom enough to cost nothing.
std::chrono::milliseconds tick_of(const HttpLimits& limits) {
  const auto shortest = std::min(
      {limits.request_timeout, limits.stream_timeout, limits.idle_timeout, limits.write_timeout});
  return std::clamp<std::chrono::milliseconds>(shortest / 8, std::chrono::milliseconds{5},
                                               std::chrono::milliseconds{500});
}

std::string peer_name(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    asio::ip::address_v6::bytes_type bytes;
    std::copy(std::begin(v6.sin6_addr.s6_addr), std::end(v6.sin6_addr.s6_addr), bytes.begin());
    const asio::ip::address_v6 name(bytes);
    return name.is_v4_mapped() ? asio::ip::make_address_v4(asio::ip::v4_mapped, name).to_string()
                               : name.to_string();
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  return asio::ip::address_v4(ntohl(v4.sin_addr.s_addr)).to_string();
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const ServerOptions& options, const Router& router, const Authenticator& authenticator,
       Logger& logger, HttpObserver& observer, const Clock& clock)
      : options_(options),
        address_(read_address(options.listen.host)),
        logger_(logger),
        observer_(observer),
        service_(options, router, authenticator, logger, observer, clock) {
    const bool is_guarded = authenticator.has_tokens() ||
                            (options.tls.enabled() && options.tls.require_client_certificate);
    if (!address_.is_loopback() && !is_guarded && !options.listen.allow_anonymous_remote) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("listen.host: {} can be reached from other machines, and nothing "
                              "guards it; set auth.token_file, require client certificates, or "
                              "set listen.allow_anonymous_remote",
                              options.listen.host));
    }
    if (options.tls.enabled()) tls_ = load_tls_context(options.tls);
    const std::size_t threads = options.io_threads > 0
                                    ? options.io_threads
                                    : std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t i = 0; i < threads; ++i) {
      loops_.push_back(std::make_shared<EventLoop>(tick_of(options.limits)));
    }
  }

  ~Impl() { stop(Duration::zero()); }

  void start();
  void reload_certificates();
  void drain();
  std::size_t stop(Duration within);

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] bool is_draining() const noexcept { return service_.is_draining(); }
  [[nodiscard]] const MemoryBudget& memory() const noexcept { return service_.memory(); }

 private:
  void wait_for_clients();
  void accept_clients();
  void pause_accepting();
  void serve(std::shared_ptr<AcceptedSocket> socket);
  /// In this loop or, when no place is left, in one where a connection gives way; so many of them
  /// were asked before.
  void serve_in(std::size_t loop, const std::shared_ptr<AcceptedSocket>& socket,
                std::size_t loops_asked);
  [[nodiscard]] ConnectionPlace find_place(const EventLoop& loop,
                                           const std::shared_ptr<ClientAddress>& address,
                                           std::size_t bytes);
  std::size_t count_requests();
  [[nodiscard]] std::shared_ptr<asio::ssl::context> tls() const;

  const ServerOptions options_;
  const asio::ip::address address_;
  Logger& logger_;
  HttpObserver& observer_;
  HttpService service_;
  std::vector<std::shared_ptr<EventLoop>> loops_;  ///< the first one accepts
  std::unique_ptr<Tcp::acceptor> acceptor_;
  std::unique_ptr<asio::steady_timer> pause_;
  std::atomic<std::uint16_t> port_ = 0;
  std::size_t next_loop_ = 0;

  mutable detail::Mutex mutex_;
  std::shared_ptr<asio::ssl::context> tls_ ONCEBOX_GUARDED_BY(mutex_);

  detail::Mutex stop_mutex_;
  std::atomic<bool> is_started_ = false;
  bool is_stopped_ ONCEBOX_GUARDED_BY(stop_mutex_) = false;
};

void HttpServer::Impl::start() {
  const detail::Lock lock(stop_mutex_);
  if (is_started_ || is_stopped_) return;
  try {
    auto acceptor = std::make_unique<Tcp::acceptor>(loops_.front()->context());
    const Tcp::endpoint endpoint(address_, options_.listen.port);
    acceptor->open(endpoint.protocol());
    acceptor->set_option(Tcp::acceptor::reuse_address(true));
    acceptor->bind(endpoint);
    acceptor->listen();
    acceptor->non_blocking(true);
    port_ = acceptor->local_endpoint().port();
    acceptor_ = std::move(acceptor);
  } catch (const boost::system::system_error& error) {
    throw Error(ErrorCode::unavailable,
                fmt::format("cannot listen on {} port {}: {}", options_.listen.host,
                            options_.listen.port, error.code().message()));
  }
  pause_ = std::make_unique<asio::steady_timer>(loops_.front()->context());
  is_started_ = true;
  for (const auto& loop : loops_) loop->start();
  loops_.front()->post([this] { wait_for_clients(); });
}

void HttpServer::Impl::wait_for_clients() {
  if (!acceptor_->is_open()) return;
  acceptor_->async_wait(Tcp::acceptor::wait_read, [this](const SystemError& error) {
    if (!error) accept_clients();
  });
}

void HttpServer::Impl::accept_clients() {
  while (acceptor_->is_open()) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const int descriptor =
        accept4(acceptor_->native_handle(), reinterpret_cast<sockaddr*>(&address), &size,
                SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) {
      if (errno == EAGAIN) return wait_for_clients();
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return pause_accepting();
      }
      continue;  // that client is gone already
    }
    AcceptedSocket socket(descriptor, address.ss_family == AF_INET6);
    try {
      socket.set_peer(peer_name(address));
      serve(std::make_shared<AcceptedSocket>(std::move(socket)));
    } catch (const std::exception& error) {
      // Without memory this client is sent away; others may find some.
      logger_.log(LogLevel::error, "a new connection failed", {{"cause", error.what()}});
    }
  }
}

void HttpServer::Impl::pause_accepting() {
  logger_.log(LogLevel::warning,
              "no file descriptors are left for new connections; raise the limit of open files",
              {});
  observer_.on_refused_connection();
  pause_->expires_after(kAcceptPause);
  pause_->async_wait([this](const SystemError& error) {
    if (!error && acceptor_->is_open()) accept_clients();
  });
}

void HttpServer::Impl::serve(std::shared_ptr<AcceptedSocket> socket) {
  const std::size_t loop = next_loop_++ % loops_.size();
  // Each loop's sockets belong to its thread, from the beginning.
  loops_[loop]->post([this, loop, socket = std::move(socket)] { serve_in(loop, socket, 0); });
}

void HttpServer::Impl::serve_in(std::size_t loop, const std::shared_ptr<AcceptedSocket>& socket,
                                std::size_t loops_asked) {
  try {
    const auto tls = this->tls();
    auto place = find_place(*loops_[loop], service_.address_of(socket->peer()),
                            tls ? kTlsConnectionBytes : kPlainConnectionBytes);
    if (place.kind() == ConnectionPlace::Kind::none) {
      if (loops_asked + 1 < loops_.size()) {
        const std::size_t next = (loop + 1) % loops_.size();
        return loops_[next]->post(
            [this, next, socket, asked = loops_asked + 1] { serve_in(next, socket, asked); });
      }
      place = service_.refuse();
      // A client that has not shaken hands yet could not read why.
      if (place.kind() == ConnectionPlace::Kind::none || tls) return;
    }
    make_socket_connection(loops_[loop], service_, *socket, tls)->start(std::move(place));
  } catch (const std::exception& error) {
    logger_.log(LogLevel::error, "a new connection failed", {{"cause", error.what()}});
  }
}

/// A place of its own or, when none is left, that of a connection of this loop. None has to go in
/// vain: when requests hold so much memory that the connections' would not do, all stay.
ConnectionPlace HttpServer::Impl::find_place(const EventLoop& loop,
                                             const std::shared_ptr<ClientAddress>& address,
                                             std::size_t bytes) {
  const std::size_t places = service_.places(bytes);
  const SteadyTime now = service_.clock().steady();
  for (;;) {
    auto place = service_.admit(address, bytes);
    if (place.kind() != ConnectionPlace::Kind::none) return place;
    const std::size_t shortage = memory().shortage(MemoryPart::connections, bytes);
    if (!can_give_way(loop, *address, places, shortage, now)) return place;
    Connection* const leaving = choose_to_give_way(loop, *address, places, now);
    if (leaving == nullptr) return place;
    leaving->give_place();
  }
}

std::shared_ptr<asio::ssl::context> HttpServer::Impl::tls() const {
  const detail::Lock lock(mutex_);
  return tls_;
}

void HttpServer::Impl::reload_certificates() {
  if (!options_.tls.enabled()) return;
  auto fresh = load_tls_context(options_.tls);
  const detail::Lock lock(mutex_);
  tls_ = std::move(fresh);
}

void HttpServer::Impl::drain() {
  if (!is_started_ || !service_.begin_drain()) return;
  loops_.front()->post([this] {
    SystemError ignored;
    acceptor_->close(ignored);
    pause_->cancel();
  });
  for (const auto& loop : loops_) {
    loop->post([loop] { loop->for_each([](Connection& connection) { connection.drain(); }); });
  }
}

std::size_t HttpServer::Impl::stop(Duration within) {
  // Before the lock: a second call hastens the first.
  service_.limit_wait(within);
  const detail::Lock lock(stop_mutex_);
  if (std::exchange(is_stopped_, true) || !is_started_) return 0;
  drain();
  std::size_t unanswered = 0;
  if (!service_.wait_for_connections()) unanswered = count_requests();
  for (const auto& loop : loops_) loop->stop();
  return unanswered;
}

/// How many requests are under way, asked of every loop in its own thread.
std::size_t HttpServer::Impl::count_requests() {
  struct Count {
    detail::Mutex mutex;
    detail::Condition changed;
    std::size_t answers ONCEBOX_GUARDED_BY(mutex) = 0;
    std::size_t requests ONCEBOX_GUARDED_BY(mutex) = 0;
  };
  const auto count = std::make_shared<Count>();
  for (const auto& loop : loops_) {
    loop->post([loop, count] {
      std::size_t requests = 0;
      loop->for_each([&requests](Connection& connection) {
        if (connection.has_request()) ++requests;
      });
      const detail::Lock lock(count->mutex);
      count->requests += requests;
      ++count->answers;
      count->changed.notify_all();
    });
  }
  const detail::Lock lock(count->mutex);
  while (count->answers < loops_.size()) count->changed.wait(count->mutex);
  return count->requests;
}

HttpServer::HttpServer(const ServerOptions& options, const Router& router,
                       const Authenticator& authenticator, Logger& logger, HttpObserver& observer,
                       const Clock& clock)
    : impl_(std::make_unique<Impl>(options, router, authenticator, logger, observer, clock)) {}

HttpServer::~HttpServer() = default;

void HttpServer::start() { impl_->start(); }
std::uint16_t HttpServer::port() const noexcept { return impl_->port(); }
void HttpServer::reload_certificates() { impl_->reload_certificates(); }
void HttpServer::drain() { impl_->drain(); }
bool HttpServer::is_draining() const noexcept { return impl_->is_draining(); }
const MemoryBudget& HttpServer::memory() const noexcept { return impl_->memory(); }
std::size_t HttpServer::stop(Duration within) { return impl_->stop(within); }

}  // namespace oncebox::server
