#include "oncebox/http/http_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "event_stream.hpp"
#include "http_audit.hpp"
#include "http_client.hpp"
#include "http_endpoints.hpp"
#include "http_keys.hpp"
#include "http_policies.hpp"
#include "http_queue.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/internal/authority.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::http {

namespace {

constexpr std::size_t kMaxConnections = 1'024;
constexpr std::size_t kMaxRetries = 10;
constexpr Duration kMaxTimeout = std::chrono::hours{1};
constexpr std::size_t kMaxStoreNameBytes = 128;
// What every store takes.
constexpr std::size_t kPayloadBytesOfEveryStore = std::size_t{16} << 20;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

void require_url(std::string_view url) {
  const bool is_plain = url.starts_with("http://");
  if (!is_plain && !url.starts_with("https://")) {
    refuse("url: an address such as http://127.0.0.1:8080 or https://oncebox.example is expected");
  }
  const std::string_view rest = url.substr(url.find("//") + 2);
  const std::string_view host = rest.substr(0, rest.find('/'));
  if (host.find('@') != std::string_view::npos) {
    refuse("url: no user or password in the address; give a token, best by token_file");
  }
  if (host.empty() || rest.find_first_of("?# \\\r\n\t") != std::string_view::npos) {
    refuse("url: only a host, a port and a path are expected in the address");
  }
  if (!detail::has_possible_port(host)) refuse("url: a port is a number from 1 to 65535");
}

}  // namespace

void Options::validate() const {
  require_url(url);
  if (!token.empty() && !token_file.empty())
    refuse("token: give a token or a token_file, not both");
  if (client_certificate.empty() != client_key.empty()) {
    refuse("client_certificate: a certificate and its key go together");
  }
  if (store.size() > kMaxStoreNameBytes) refuse("store: this name is too long");
  require_in_range("connect_timeout", connect_timeout, Duration{1}, kMaxTimeout);
  require_in_range("call_timeout", call_timeout, Duration{1}, kMaxTimeout);
  require_in_range("retry_pause", retry_pause, Duration{1}, kMaxTimeout);
  if (max_retries < 0) throw Error(ErrorCode::out_of_range, "max_retries must not be negative");
  require_in_range("max_retries", static_cast<std::size_t>(max_retries), 0, kMaxRetries);
  require_in_range("max_connections", max_connections, 1, kMaxConnections);
}

class HttpStore::Impl {
 public:
  Impl(const Options& options, const Clock& clock)
      : client(options),
        inbox(client, QueueKind::inbox, [this] { start_listening(); }),
        outbox(client, QueueKind::outbox, [this] { start_listening(); }),
        deliveries(client, QueueKind::deliveries, [this] { start_listening(); }),
        inbox_operator(client, QueueKind::inbox),
        outbox_operator(client, QueueKind::outbox),
        deliveries_operator(client, QueueKind::deliveries),
        keys(client),
        policies(client),
        endpoints(client),
        audit(client),
        clock_(clock) {}

  Capabilities capabilities() {
    {
      const detail::Lock lock(mutex_);
      if (capabilities_) return *capabilities_;
    }
    const Capabilities facts = ask_for_capabilities();
    const detail::Lock lock(mutex_);
    capabilities_ = facts;
    return facts;
  }

 private:
  [[nodiscard]] Capabilities ask_for_capabilities() {
    const Options& options = client.options();
    Capabilities facts{.shared_between_processes = true,
                       .max_payload_bytes = kPayloadBytesOfEveryStore};
    try {
      facts = client.describe(options.call_timeout).capabilities;
    } catch (const Error& error) {
      // The token does not let us ask.
      if (error.code() != ErrorCode::invalid_argument) throw;
    }
    facts.max_payload_bytes =
        std::min(facts.max_payload_bytes, options.max_payload_bytes.value_or(SIZE_MAX));
    return facts;
  }

  void start_listening() {
    const detail::Lock lock(mutex_);
    if (events_) return;
    const auto on_work = [this](std::optional<QueueKind> queue) {
      // Nothing: it may have been any.
      if (!queue || queue == QueueKind::inbox) inbox.listeners().notify();
      if (!queue || queue == QueueKind::outbox) outbox.listeners().notify();
      if (!queue || queue == QueueKind::deliveries) deliveries.listeners().notify();
    };
    events_ = std::make_unique<EventStream>(client, clock_, on_work);
  }

 public:
  HttpClient client;
  HttpQueue inbox;
  HttpQueue outbox;
  HttpQueue deliveries;
  HttpQueueOperator inbox_operator;
  HttpQueueOperator outbox_operator;
  HttpQueueOperator deliveries_operator;
  HttpKeys keys;
  HttpPolicies policies;
  HttpEndpoints endpoints;
  HttpAudit audit;

 private:
  const Clock& clock_;
  detail::Mutex mutex_;
  std::optional<Capabilities> capabilities_ ONCEBOX_GUARDED_BY(mutex_);
  /// Last: it tells the queues.
  std::unique_ptr<EventStream> events_ ONCEBOX_GUARDED_BY(mutex_);
};

HttpStore::HttpStore(const Options& options, const Clock& clock) {
  options.validate();
  impl_ = std::make_unique<Impl>(options, clock);
}

HttpStore::~HttpStore() = default;

QueueStore& HttpStore::inbox() { return impl_->inbox; }
QueueStore& HttpStore::outbox() { return impl_->outbox; }
QueueStore& HttpStore::deliveries() { return impl_->deliveries; }
IdempotencyStore& HttpStore::keys() { return impl_->keys; }
QueueOperator& HttpStore::inbox_operator() { return impl_->inbox_operator; }
QueueOperator& HttpStore::outbox_operator() { return impl_->outbox_operator; }
QueueOperator& HttpStore::deliveries_operator() { return impl_->deliveries_operator; }
PolicyStore& HttpStore::policies() { return impl_->policies; }
EndpointStore& HttpStore::endpoints() { return impl_->endpoints; }
AuditTrail& HttpStore::audit() { return impl_->audit; }

Capabilities HttpStore::capabilities() const { return impl_->capabilities(); }

MigrationResult HttpStore::migrate() {
  (void)impl_->client.describe(impl_->client.options().call_timeout);
  return {};
}

Health HttpStore::health() noexcept {
  try {
    // Whoever asks wants to know soon.
    return impl_->client.describe(impl_->client.options().connect_timeout).health;
  } catch (const std::exception& error) {
    return {.status = HealthStatus::unavailable, .detail = error.what()};
  }
}

}  // namespace oncebox::http
