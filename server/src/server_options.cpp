#include "oncebox/server/server_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "oncebox/error.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/internal/authority.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/webhook/webhook_client.hpp"
#include "oncebox/webhook/webhook_signer.hpp"
#include "webhooks/webhooks.hpp"

namespace oncebox::server {

namespace {

constexpr Duration kMaxTimeout = std::chrono::hours{1};
constexpr Duration kMaxStreamTimeout = std::chrono::hours{24};
constexpr std::size_t kMaxBodyBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxMemoryBytes = std::size_t{1} << 40;
/// Without a token a client gets an eighth of the memory at most, where a body counts twice.
constexpr std::size_t kBodiesInMemory = 16;
constexpr std::size_t kMaxThreads = 1'024;

[[noreturn]] void refuse(std::string_view option, std::string_view why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", option, why));
}

/// Puts the section before the name in what `check` throws.
template <class Check>
void with_prefix(std::string_view section, Check check) {
  try {
    check();
  } catch (const Error& error) {
    constexpr std::string_view kArticle = "the ";
    std::string_view text = error.what();
    if (text.starts_with(kArticle)) text.remove_prefix(kArticle.size());
    throw Error(error.code(), fmt::format("{}{}", section, text));
  }
}

void validate_limits(const HttpLimits& limits) {
  require_in_range("limits.max_header_bytes", limits.max_header_bytes, std::size_t{1} << 10,
                   std::size_t{1} << 20);
  require_in_range("limits.max_body_bytes", limits.max_body_bytes, std::size_t{1} << 10,
                   kMaxBodyBytes);
  require_in_range("limits.max_line_bytes", limits.max_line_bytes, std::size_t{1} << 10,
                   kMaxBodyBytes);
  require_in_range("limits.memory", limits.memory_bytes, std::size_t{1} << 20, kMaxMemoryBytes);
  const std::size_t largest = std::max(limits.max_body_bytes, limits.max_line_bytes);
  if (limits.memory_bytes / kBodiesInMemory < largest) {
    refuse("limits.memory",
           fmt::format("must be at least {} times limits.max_body_bytes and limits.max_line_bytes",
                       kBodiesInMemory));
  }
  require_in_range("limits.max_connections", limits.max_connections, std::size_t{1},
                   std::size_t{1'000'000});
  require_in_range("limits.request_timeout", limits.request_timeout, Duration{1}, kMaxTimeout);
  require_in_range("limits.stream_timeout", limits.stream_timeout, Duration{1}, kMaxStreamTimeout);
  require_in_range("limits.idle_timeout", limits.idle_timeout, Duration{1}, kMaxTimeout);
  require_in_range("limits.write_timeout", limits.write_timeout, Duration{1}, kMaxTimeout);
  require_in_range("limits.max_waiting_claims", limits.max_waiting_claims, std::size_t{0},
                   std::size_t{1'000'000});
  require_in_range("limits.max_event_streams", limits.max_event_streams, std::size_t{0},
                   std::size_t{100'000});
}

void validate_tls(const TlsOptions& tls) {
  if (tls.enabled() == tls.key.empty()) {
    refuse(tls.enabled() ? "tls.key" : "tls.certificate", "goes with the other one");
  }
  if (!tls.enabled() && !tls.client_ca.empty()) refuse("tls.client_ca", "needs tls.certificate");
  if (tls.require_client_certificate && tls.client_ca.empty()) {
    refuse("tls.require_client_certificate", "needs tls.client_ca");
  }
}

void validate_retention(const RetentionOptions& retention) {
  require_in_range("retention.done", retention.done, Duration{0}, limits::kMaxRetention);
  if (retention.dead) {
    require_in_range("retention.dead", *retention.dead, Duration{0}, limits::kMaxRetention);
  }
  require_in_range("retention.keys", retention.keys, Duration{1}, limits::kMaxRetention);
  require_in_range("retention.audit", retention.audit, Duration{0}, limits::kMaxRetention);
  require_in_range("retention.interval", retention.interval, Duration{1}, std::chrono::days{1});
  require_in_range("retention.reap_interval", retention.reap_interval, Duration{1},
                   std::chrono::days{1});
  require_in_range("retention.batch", retention.batch, 1, limits::kMaxBatchItems);
}

/// `https://shop.example` or `*`: what a browser sends, and no path behind it.
void validate_origin(const std::string& origin) {
  if (origin == "*") return;
  const bool is_http = origin.starts_with("http://") || origin.starts_with("https://");
  if (!is_http || !detail::read_authority(origin.substr(origin.find("://") + 3))) {
    refuse("cors_origins", fmt::format("\"{}\" is not an origin such as https://host", origin));
  }
}

}  // namespace

void NoticeOptions::validate() const {
  when.validate();
  require_in_range("timeout", timeout, Duration{1}, kMaxTimeout);
  require_in_range("attempts", attempts, 1, 100);
  require_in_range("max_queued", max_queued, 1, 100'000);
  if (url.empty() != secret.empty())
    refuse(url.empty() ? "url" : "secret", "goes with the other one");
  if (url.empty()) return;
  webhook::require_webhook_url(url);
  (void)webhook::WebhookSigner({secret});
}

void ServerOptions::validate() const {
  if (listen.host.empty()) refuse("listen.host", "is empty");
  validate_tls(tls);
  validate_limits(limits);
  validate_retention(retention);
  if (!default_store.empty()) {
    try {
      require_store_name(default_store);
    } catch (const Error& error) {
      refuse("default_store", error.what());
    }
  }
  with_prefix("watchdog.", [this] { watchdog.validate(); });
  with_prefix("notices.", [this] { notices.validate(); });
  publish.validate();
  for (const std::string& origin : cors_origins) validate_origin(origin);
  validate_webhooks(webhooks);
  with_prefix("retry: ", [this] { retry.validate(); });
  for (const TopicOptions& rule : topics) {
    with_prefix("topics: ", [&] {
      static_cast<void>(TopicPattern(rule.topic));
      rule.change.validate();
    });
  }
  require_in_range("io_threads", io_threads, std::size_t{0}, kMaxThreads);
  require_in_range("call_threads", call_threads, std::size_t{1}, kMaxThreads);
  require_in_range("max_queued_calls", max_queued_calls, std::size_t{1}, std::size_t{1'000'000});
}

}  // namespace oncebox::server
