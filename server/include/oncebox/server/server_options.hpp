#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/operate/watchdog.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/server/notice_options.hpp"
#include "oncebox/server/publish_options.hpp"
#include "oncebox/server/webhook_options.hpp"
#include "oncebox/topic_policy.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::server {

struct ListenOptions {
  std::string host = "127.0.0.1";  ///< an address, not a name
  std::uint16_t port = 8080;       ///< 0: any free one
  /// Without tokens and client certificates the server refuses to listen beyond loopback, unless
  /// this says that something else guards it.
  bool allow_anonymous_remote = false;
};

struct TlsOptions {
  std::filesystem::path certificate = {};  ///< PEM, the whole chain; empty: plain HTTP
  std::filesystem::path key = {};
  std::filesystem::path client_ca = {};  ///< PEM; not empty: clients may show a certificate
  bool require_client_certificate = false;

  [[nodiscard]] bool enabled() const noexcept { return !certificate.empty(); }
};

/// Where the bearer tokens come from; all of them count. One token a line:
/// `NAME SCOPE[,SCOPE…] SECRET`, scopes are produce, consume, operate and read; `#` begins a
/// comment. Read again by `Server::reload`. Without any token every caller may do everything.
struct AuthOptions {
  std::filesystem::path token_file = {};
  std::string token_variable = "ONCEBOX_TOKENS";  ///< an environment variable with such lines
};

struct HttpLimits {
  /// What the process should stay below. Half of it is for what clients make the server hold;
  /// beyond that they are refused.
  std::size_t memory_bytes = std::size_t{512} << 20;
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = 8 << 20;
  std::size_t max_line_bytes = 2 << 20;  ///< one message of a streamed body
  std::size_t max_connections = 4'096;
  /// For a request to come in whole; a streamed body has it for each part.
  Duration request_timeout = std::chrono::seconds{30};
  Duration stream_timeout = std::chrono::hours{1};    ///< for a streamed body to come in whole
  Duration idle_timeout = std::chrono::seconds{75};   ///< between requests
  Duration write_timeout = std::chrono::seconds{30};  ///< for a client to take its answer
  std::size_t max_waiting_claims = 1'024;
  std::size_t max_event_streams = 64;
};

struct RetentionOptions {
  Duration done = defaults::kRetention;
  std::optional<Duration> dead = {};               ///< nothing: kept
  Duration keys = defaults::kKeyRetention;         ///< of keys that the inbox contract stores
  Duration audit = defaults::kAuditRetention;      ///< of entries of the audit trail
  Duration interval = defaults::kCleanupInterval;  ///< how often to look
  Duration reap_interval = defaults::kReapInterval;
  std::size_t batch = 1'000;  ///< removed in one transaction at most; less where that takes long
};

/// What the server changes in the rule for some topics, in each of its stores, when it has opened
/// the store.
struct TopicOptions {
  std::string topic;  ///< or a pattern of topics
  QueueKind queue = QueueKind::inbox;
  TopicPolicyChange change = {};
};

enum class AccessLog { all, errors, off };

/// Which lines about single messages are logged.
enum class MessageLog {
  all,
  bounded,  ///< fifty a second of a kind, and once a second how many more there were
  off,      ///< none but warnings and errors, which are bounded, too
};

struct ServerOptions {
  ListenOptions listen = {};
  TlsOptions tls = {};
  AuthOptions auth = {};
  HttpLimits limits = {};
  RetentionOptions retention = {};
  WatchdogOptions watchdog = {};
  NoticeOptions notices = {};
  PublishOptions publish = {};
  EnqueueOptions enqueue = {};
  /// The store that paths without a store's name mean; it need not be there yet. Empty: none, and
  /// such paths are not found.
  std::string default_store = {};
  std::vector<WebhookOptions> webhooks = {};
  /// The rule for all topics of the inboxes; those of `topics` are exceptions to it.
  TopicPolicyChange retry = {};
  std::vector<TopicOptions> topics = {};
  std::vector<std::string> cors_origins = {};  ///< empty: no CORS
  /// A mark-processed without leaseId is refused (KIN-04).
  bool strict_inbox = false;
  AccessLog access_log = AccessLog::all;
  MessageLog message_log = MessageLog::bounded;

  std::size_t io_threads = 0;  ///< that read and write sockets; 0: one for each core
  /// That wait for the stores of one database server, at most; so a server that hangs holds up
  /// itself. For all servers together there are 256, or twice as many as this if that is more.
  std::size_t call_threads = 16;
  /// Calls that may wait for such a thread, of all callers; each caller has a share.
  std::size_t max_queued_calls = 2'048;

  /// Throws `out_of_range` or `invalid_argument`, naming the option.
  void validate() const;
};

}  // namespace oncebox::server
