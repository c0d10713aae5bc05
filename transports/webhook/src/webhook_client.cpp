#include "oncebox/webhook/webhook_client.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client_loop.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/authority.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::webhook {

namespace {

/// Where the thread that posts meets the client's.
class AwaitedAnswer {
 public:
  void set(WebhookAnswer answer) {
    // Notified under the lock: the thread that waits may end this object at once.
    const detail::Lock lock(mutex_);
    answer_ = std::move(answer);
    is_there_.notify_one();
  }
  WebhookAnswer wait() {
    const detail::Lock lock(mutex_);
    while (!answer_) is_there_.wait(mutex_);
    return std::move(*answer_);
  }

 private:
  detail::Mutex mutex_;
  detail::Condition is_there_;
  std::optional<WebhookAnswer> answer_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace

void WebhookClientOptions::validate() const {
  constexpr Duration kLongest = std::chrono::hours{1};
  constexpr std::size_t kMostConnections = 100'000;
  require_in_range("connect_timeout", connect_timeout, Duration{1}, kLongest);
  require_in_range("timeout", timeout, Duration{1}, kLongest);
  require_in_range("max_answer_bytes", max_answer_bytes, 1, std::size_t{1} << 30);
  require_in_range("max_connections_per_host", max_connections_per_host, 1, kMostConnections);
  require_in_range("max_connections", max_connections, 1, kMostConnections);
}

WebhookAcceptance WebhookAnswer::acceptance() const noexcept {
  constexpr int kGone = 410;
  if (status >= 200 && status < 300) return WebhookAcceptance::taken;
  if (status == kGone) return WebhookAcceptance::gone;
  constexpr int kPassing[] = {404, 405, 408, 409, 425, 429};
  const bool passes =
      std::find(std::begin(kPassing), std::end(kPassing), status) != std::end(kPassing);
  const bool is_refusal = status >= 400 && status < 500 && !passes;
  return is_refusal ? WebhookAcceptance::refused : WebhookAcceptance::may_pass;
}

void require_webhook_url(std::string_view url) {
  if (!url.starts_with("https://") && !url.starts_with("http://")) {
    throw Error(ErrorCode::invalid_argument, "url: it begins with https:// or http://");
  }
  const std::string_view host = detail::authority_of(url);
  if (host.empty() || !detail::has_possible_port(host)) {
    throw Error(ErrorCode::invalid_argument,
                "url: it names a host, and perhaps a port from 1 to 65535");
  }
}

class WebhookClient::Impl {
 public:
  Impl(const WebhookClientOptions& options, const Clock& clock)
      : options_(checked(options)), loop_(options_, clock) {}

  void send(WebhookRequest request, OnAnswer on_answer, const std::stop_token& stop) {
    loop_.send(std::move(request), std::move(on_answer), stop);
  }

 private:
  static const WebhookClientOptions& checked(const WebhookClientOptions& options) {
    options.validate();
    return options;
  }

  const WebhookClientOptions options_;
  ClientLoop loop_;
};

WebhookClient::WebhookClient(const WebhookClientOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
WebhookClient::~WebhookClient() = default;

void WebhookClient::send(WebhookRequest request, OnAnswer on_answer, const std::stop_token& stop) {
  impl_->send(std::move(request), std::move(on_answer), stop);
}

WebhookAnswer WebhookClient::post(const WebhookRequest& request, const std::stop_token& stop) {
  AwaitedAnswer answer;
  impl_->send(request, [&answer](WebhookAnswer got) { answer.set(std::move(got)); }, stop);
  return answer.wait();
}

}  // namespace oncebox::webhook
