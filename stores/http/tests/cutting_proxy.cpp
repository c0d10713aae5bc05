#include "cutting_proxy.hpp"

#include <poll.h>

#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "loopback.hpp"

namespace oncebox::http {

namespace {

using testing::listen_on_loopback;
using testing::loopback_address;
using testing::port_of;
using testing::receive_more;
using testing::send_all;
using testing::send_at_once;

struct RequestSize {
  std::size_t head = 0;
  std::size_t whole = 0;
};

/// Nothing until the request is complete.
std::optional<RequestSize> complete_request(std::string_view bytes) {
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  constexpr std::string_view kLength = "Content-Length: ";
  RequestSize size{.head = end + 4, .whole = end + 4};
  const std::size_t field = bytes.substr(0, size.head).find(kLength);
  if (field != std::string_view::npos) {
    size.whole += std::stoul(std::string(bytes.substr(field + kLength.size(), 20)));
  }
  if (bytes.size() < size.whole) return std::nullopt;
  return size;
}

/// How much of a request goes on before it is cut; nothing when it has no such step.
std::optional<std::size_t> bytes_before_cut(const RequestSize& size, int step) {
  const bool has_body = size.whole > size.head;
  if (step == 0) return 0;
  if (step == 1 && has_body) return size.head;
  if (step == (has_body ? 2 : 1)) return size.whole - 1;
  return std::nullopt;
}

}  // namespace

class CuttingProxy::Impl {
 public:
  explicit Impl(std::uint16_t service_port)
      : service_port_(service_port),
        listener_(listen_on_loopback()),
        acceptor_([this] { accept_all(); }) {}

  ~Impl() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    // Nobody adds a link any more; their threads still look at the plan.
    for (const Link& link : links_) hang_up(link);
    for (Link& link : links_) {
      link.thread.join();
      close(link.client);
      close(link.service);
    }
  }

  [[nodiscard]] std::uint16_t port() const { return port_of(listener_); }

  void cut_at(int step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
    struck_ = false;
  }

  bool disarm() {
    const std::lock_guard lock(mutex_);
    step_.reset();
    return struck_;
  }

 private:
  struct Link {
    int client;
    int service;
    std::thread thread = {};
  };

  static void hang_up(const Link& link) {
    shutdown(link.client, SHUT_RDWR);
    shutdown(link.service, SHUT_RDWR);
  }

  void accept_all() {
    for (;;) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      const int service = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = loopback_address(service_port_);
      if (connect(service, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        shutdown(client, SHUT_RDWR);
      }
      send_at_once(client);
      send_at_once(service);
      Link& link = links_.emplace_back(Link{client, service});
      link.thread = std::thread([this, &link] { pass_on(link); });
    }
  }

  void pass_on(const Link& link) {
    std::string from_client;
    std::string from_service;
    for (bool open = true; open;) {
      pollfd waiting[] = {{.fd = link.client, .events = POLLIN, .revents = 0},
                          {.fd = link.service, .events = POLLIN, .revents = 0}};
      poll(waiting, 2, -1);
      if (waiting[1].revents != 0) {
        open = receive_more(link.service, from_service) && send_all(link.client, from_service);
        from_service.clear();
      }
      if (open && waiting[0].revents != 0) {
        open = receive_more(link.client, from_client) && forward(link, from_client);
      }
    }
    hang_up(link);
  }

  /// False when the connection is cut.
  bool forward(const Link& link, std::string& bytes) {
    bool passes = true;
    std::size_t size = bytes.size();
    {
      const std::lock_guard lock(mutex_);
      if (step_) {
        const std::optional<RequestSize> request = complete_request(bytes);
        if (!request) return true;  // until it is complete
        const std::optional<std::size_t> before = struck_ ? 0 : bytes_before_cut(*request, *step_);
        passes = !before;
        size = before.value_or(size);
        struck_ = struck_ || before.has_value();
      }
    }
    passes = send_all(link.service, std::string_view(bytes).substr(0, size)) && passes;
    bytes.clear();
    return passes;
  }

  const std::uint16_t service_port_;
  const int listener_;
  std::mutex mutex_;
  std::optional<int> step_;
  bool struck_ = false;
  std::list<Link> links_;  ///< only the acceptor adds to it
  std::thread acceptor_;   // last: it uses everything
};

CuttingProxy::CuttingProxy(std::uint16_t service_port)
    : impl_(std::make_unique<Impl>(service_port)) {}
CuttingProxy::~CuttingProxy() = default;

std::string CuttingProxy::url() const {
  return "http://127.0.0.1:" + std::to_string(impl_->port());
}
void CuttingProxy::cut_at(int step) { impl_->cut_at(step); }
bool CuttingProxy::disarm() { return impl_->disarm(); }

}  // namespace oncebox::http
