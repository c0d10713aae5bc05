#include "cutting_proxy.hpp"

#include <optional>
#include <string_view>

#include "oncebox/testing/tcp_proxy.hpp"

namespace oncebox::http {

namespace {

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

struct Plan {
  std::optional<int> step = {};
  bool struck = false;
};

class HttpConversation final : public testing::TcpProxy::Conversation {
 public:
  explicit HttpConversation(Plan& plan) : plan_(plan) {}

  void on_client_bytes(std::string_view bytes, testing::TcpProxy::Link& link) override {
    from_client_ += bytes;
    std::optional<std::size_t> before_cut;
    if (plan_.step) {
      const std::optional<RequestSize> request = complete_request(from_client_);
      if (!request) return;  // until it is complete
      before_cut = plan_.struck ? 0 : bytes_before_cut(*request, *plan_.step);
    }
    link.send_to_server(
        std::string_view(from_client_).substr(0, before_cut.value_or(from_client_.size())));
    from_client_.clear();
    if (!before_cut) return;
    plan_.struck = true;
    link.cut();
  }

  void on_server_bytes(std::string_view bytes, testing::TcpProxy::Link& link) override {
    link.send_to_client(bytes);
  }

 private:
  Plan& plan_;
  std::string from_client_;
};

}  // namespace

class CuttingProxy::Impl {
 public:
  explicit Impl(std::uint16_t service_port)
      : proxy(service_port, [this] { return std::make_unique<HttpConversation>(plan); }) {}

  Plan plan;
  testing::TcpProxy proxy;  // last: its thread uses the plan
};

CuttingProxy::CuttingProxy(std::uint16_t service_port)
    : impl_(std::make_unique<Impl>(service_port)) {}
CuttingProxy::~CuttingProxy() = default;

std::string CuttingProxy::url() const {
  return "http://127.0.0.1:" + std::to_string(impl_->proxy.port());
}

void CuttingProxy::cut_at(int step) {
  impl_->proxy.between_conversations([&] { impl_->plan = {.step = step}; });
}

bool CuttingProxy::disarm() {
  bool struck = false;
  impl_->proxy.between_conversations([&] {
    struck = impl_->plan.struck;
    impl_->plan.step.reset();
  });
  return struck;
}

}  // namespace oncebox::http
