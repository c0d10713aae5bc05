#include "config/config_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "choices.hpp"
#include "config/key_types.hpp"
#include "config/policy_keys.hpp"
#include "files.hpp"
#include "oncebox/error.hpp"

namespace oncebox::app {
namespace {

using server::HmacAlgorithm;
using server::SignatureEncoding;
using server::WebhookOptions;
using server::WebhookScheme;

// The words of enums ------------------------------------------------------------------------------

constexpr Choice<LogFormat> kLogFormats[] = {{"text", LogFormat::text}, {"json", LogFormat::json}};
constexpr Choice<server::AccessLog> kAccessLogs[] = {{"all", server::AccessLog::all},
                                                     {"errors", server::AccessLog::errors},
                                                     {"off", server::AccessLog::off}};
constexpr Choice<server::MessageLog> kMessageLogs[] = {{"all", server::MessageLog::all},
                                                       {"bounded", server::MessageLog::bounded},
                                                       {"off", server::MessageLog::off}};
constexpr Choice<WebhookScheme> kSchemes[] = {
    {"stripe", WebhookScheme::stripe},
    {"github", WebhookScheme::github},
    {"standard-webhooks", WebhookScheme::standard_webhooks},
    {"hmac", WebhookScheme::hmac},
    {"none", WebhookScheme::none}};
constexpr Choice<HmacAlgorithm> kAlgorithms[] = {{"sha1", HmacAlgorithm::sha1},
                                                 {"sha256", HmacAlgorithm::sha256},
                                                 {"sha512", HmacAlgorithm::sha512}};
constexpr Choice<SignatureEncoding> kEncodings[] = {{"hex", SignatureEncoding::hex},
                                                    {"base64", SignatureEncoding::base64}};

// Keys with a type of their own -------------------------------------------------------------------

ConfigKey port_key() {
  return {"listen.port", "The port; 0 takes any free one.",
          [](Config& config, const ConfigValue& value) {
            const std::size_t port = count_of(value);
            if (port > 65'535) refuse_type("a port, from 0 to 65535");
            config.server.listen.port = static_cast<std::uint16_t>(port);
          },
          [](const Config& config) { return fmt::format("{}", config.server.listen.port); }};
}

/// The secret itself, wherever it lies. No error shows any of it.
std::string secret_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? std::string() : text.substr(colon + 1);
  if (kind == "literal" && !rest.empty()) return rest;
  if (kind == "file" && !rest.empty()) return read_secret_file(rest);
  if (kind == "env" && !rest.empty()) {
    const char* value = std::getenv(rest.c_str());
    if (value == nullptr || *value == '\0') {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the environment variable {} is not set", rest));
    }
    return value;
  }
  throw Error(ErrorCode::invalid_argument,
              "a secret is written as \"env:NAME\", \"file:PATH\" or \"literal:TEXT\"");
}

WebhookKey secrets_key() {
  return {"webhooks.secrets",
          "The secrets that are valid at the same time: \"env:NAME\", \"file:PATH\" or "
          "\"literal:TEXT\".",
          [](WebhookOptions& webhook, const ConfigValue& value) {
            webhook.secrets.clear();
            for (const std::string& text : texts_of(value)) {
              webhook.secrets.push_back(secret_of(text));
            }
          },
          [](const WebhookOptions&) { return std::string("[]"); }};
}

ConfigKey notice_secret_key() {
  return {"notices.secret",
          "What they are signed with, \"whsec_\" and base64: \"env:NAME\", \"file:PATH\" or "
          "\"literal:TEXT\".",
          [](Config& config, const ConfigValue& value) {
            const std::string text = text_of(value);
            config.server.notices.secret = text.empty() ? text : secret_of(text);
          },
          [](const Config&) { return toml_text(""); }};
}

ConfigKey notice_thresholds_key() {
  return {
      "notices.thresholds",
      "How many dead messages of a group are worth a notice; with blanks between.",
      [](Config& config, const ConfigValue& value) {
        auto& thresholds = config.server.notices.when.thresholds;
        thresholds.clear();
        for (const std::string& text : texts_of(FreeText{text_of(value)})) {
          thresholds.push_back(parse_count(text));
        }
      },
      [](const Config& config) {
        return toml_text(fmt::format("{}", fmt::join(config.server.notices.when.thresholds, " ")));
      }};
}

using Bool = Place<Config, bool>;
using Count = Place<Config, std::size_t>;
using Time = Place<Config, Duration>;
using Text = Place<Config, std::string>;
using Texts = Place<Config, std::vector<std::string>>;
using Path = Place<Config, std::filesystem::path>;

std::vector<ConfigKey> network_keys() {
  return {
      text_key("listen.host", "The address to listen on; an address, not a name.",
               Text([](Config& c) -> auto& { return c.server.listen.host; })),
      port_key(),
      flag_key("listen.allow_anonymous_remote",
               "Without tokens and client certificates the server refuses to listen beyond "
               "loopback, unless this says that something else guards it.",
               Bool([](Config& c) -> auto& { return c.server.listen.allow_anonymous_remote; })),

      path_key("tls.certificate", "PEM, the whole chain; empty means plain HTTP.",
               Path([](Config& c) -> auto& { return c.server.tls.certificate; })),
      path_key("tls.key", "PEM, the key of the certificate.",
               Path([](Config& c) -> auto& { return c.server.tls.key; })),
      path_key("tls.client_ca", "PEM; with it clients may show a certificate of this authority.",
               Path([](Config& c) -> auto& { return c.server.tls.client_ca; })),
      flag_key("tls.require_client_certificate", "Refuse clients without a certificate.",
               Bool([](Config& c) -> auto& { return c.server.tls.require_client_certificate; })),

      path_key("auth.token_file",
               "A file of bearer tokens, one a line: NAME SCOPE[,SCOPE...] SECRET. Scopes are "
               "produce, consume, operate and read.",
               Path([](Config& c) -> auto& { return c.server.auth.token_file; })),
      text_key("auth.token_variable", "An environment variable with such lines.",
               Text([](Config& c) -> auto& { return c.server.auth.token_variable; })),
  };
}

std::vector<ConfigKey> limit_keys() {
  return {
      bytes_key(
          "limits.memory",
          "What the process should stay below. Half of it is for what clients make the server "
          "hold; beyond that they get 503.",
          Count([](Config& c) -> auto& { return c.server.limits.memory_bytes; })),
      bytes_key("limits.max_header_bytes", "The head of a request.",
                Count([](Config& c) -> auto& { return c.server.limits.max_header_bytes; })),
      bytes_key("limits.max_body_bytes", "The body of a request that is not streamed.",
                Count([](Config& c) -> auto& { return c.server.limits.max_body_bytes; })),
      bytes_key("limits.max_line_bytes", "One message of a streamed body.",
                Count([](Config& c) -> auto& { return c.server.limits.max_line_bytes; })),
      count_key("limits.max_connections", "Connections at the same time.",
                Count([](Config& c) -> auto& { return c.server.limits.max_connections; })),
      duration_key("limits.request_timeout",
                   "For a request to come in whole; a streamed body has it for each part.",
                   Time([](Config& c) -> auto& { return c.server.limits.request_timeout; })),
      duration_key("limits.stream_timeout", "For a streamed body to come in whole.",
                   Time([](Config& c) -> auto& { return c.server.limits.stream_timeout; })),
      duration_key("limits.idle_timeout", "For a connection without a request.",
                   Time([](Config& c) -> auto& { return c.server.limits.idle_timeout; })),
      duration_key("limits.write_timeout", "For a client to take its answer.",
                   Time([](Config& c) -> auto& { return c.server.limits.write_timeout; })),
      count_key("limits.max_waiting_claims",
                "Claims that wait for messages at the same time; a caller has a share.",
                Count([](Config& c) -> auto& { return c.server.limits.max_waiting_claims; })),
      count_key("limits.max_event_streams",
                "Readers of /v1/events at the same time; a caller has a share.",
                Count([](Config& c) -> auto& { return c.server.limits.max_event_streams; })),
  };
}

std::vector<ConfigKey> recovery_keys() {
  return {
      duration_key("watchdog.interval", "How often to look at a store.",
                   Time([](Config& c) -> auto& { return c.server.watchdog.interval; })),
      count_key("watchdog.held_leases", "A worker holds a message for so many times its lease.",
                Count([](Config& c) -> auto& { return c.server.watchdog.held_leases; })),
      duration_key("watchdog.held_after", "And at least for so long.",
                   Time([](Config& c) -> auto& { return c.server.watchdog.held_after; })),
      duration_key("watchdog.lapsed_after", "A lease ended, and nobody took the message over.",
                   Time([](Config& c) -> auto& { return c.server.watchdog.lapsed_after; })),
      duration_key("watchdog.ready_after", "A message could be claimed, and nobody did.",
                   Time([](Config& c) -> auto& { return c.server.watchdog.ready_after; })),
      duration_key("watchdog.slow_after", "A store takes too long to count its messages.",
                   Time([](Config& c) -> auto& { return c.server.watchdog.slow_after; })),
      count_key("watchdog.backlog", "More than so many are ready, and ever more.",
                Count([](Config& c) -> auto& { return c.server.watchdog.backlog; })),
      count_key("watchdog.growing_looks", "For so many looks in a row.",
                Count([](Config& c) -> auto& { return c.server.watchdog.growing_looks; })),
      duration_key("watchdog.poison_window", "Deaths among what ended in this time count.",
                   Time([](Config& c) -> auto& { return c.server.watchdog.poison_window; })),
      count_key("watchdog.poison_deaths", "At least so many of a topic.",
                Count([](Config& c) -> auto& { return c.server.watchdog.poison_deaths; })),
      count_key("watchdog.poison_percent", "And at least such a part of them.",
                Count([](Config& c) -> auto& { return c.server.watchdog.poison_percent; })),

      text_key("notices.url", "Gets a POST for each notice; empty means nobody.",
               Text([](Config& c) -> auto& { return c.server.notices.url; })),
      notice_secret_key(),
      notice_thresholds_key(),
      duration_key("notices.cooldown", "Between two notices of the same group.",
                   Time([](Config& c) -> auto& { return c.server.notices.when.cooldown; })),
      duration_key("notices.forget_after", "A group of which none died for so long begins anew.",
                   Time([](Config& c) -> auto& { return c.server.notices.when.forget_after; })),
      duration_key("notices.timeout", "For the receiver to answer.",
                   Time([](Config& c) -> auto& { return c.server.notices.timeout; })),
      count_key("notices.attempts", "How often to try.",
                Count([](Config& c) -> auto& { return c.server.notices.attempts; })),
      count_key("notices.max_queued", "Notices that may wait to be sent; more are dropped.",
                Count([](Config& c) -> auto& { return c.server.notices.max_queued; })),

      flag_key("publishing.enabled",
               "Publish the outboxes of all stores to their endpoints. Only where nobody else "
               "works on them: a message that no endpoint wants is done.",
               Bool([](Config& c) -> auto& { return c.server.publish.enabled; })),
      count_key("publishing.workers",
                "Threads that begin deliveries; one that is under way keeps none.",
                Count([](Config& c) -> auto& { return c.server.publish.workers; })),
      duration_key("publishing.timeout", "Of one attempt, unless its endpoint has another.",
                   Time([](Config& c) -> auto& { return c.server.publish.timeout; })),
      duration_key("publishing.max_retry_after", "The longest that a receiver may ask us to wait.",
                   Time([](Config& c) -> auto& { return c.server.publish.max_retry_after; })),
      path_key("publishing.ca_file",
               "PEM, the authorities that receivers have their certificates from; empty means "
               "those that the system trusts.",
               Path([](Config& c) -> auto& { return c.server.publish.ca_file; })),
      flag_key("publishing.proxy_checks_addresses",
               "The proxies of the environment refuse private addresses. Without that, only "
               "endpoints with allow_private are called through them, and the others fail.",
               Bool([](Config& c) -> auto& { return c.server.publish.proxy_checks_addresses; })),
      flag_key("publishing.private_over_http",
               "Endpoints that are set over HTTP may call addresses of this machine and of private "
               "networks. Whoever has the scope operate can then make requests in them.",
               Bool([](Config& c) -> auto& { return c.server.publish.private_over_http; })),
  };
}

std::vector<ConfigKey> behaviour_keys() {
  return {
      duration_key("retention.done", "How long done messages are remembered.",
                   Time([](Config& c) -> auto& { return c.server.retention.done; })),
      optional_duration_key("retention.dead",
                            "How long dead messages are kept; \"never\" removes none.", "never",
                            Place<Config, std::optional<Duration>>(
                                [](Config& c) -> auto& { return c.server.retention.dead; })),
      duration_key("retention.keys", "How long idempotency keys are remembered.",
                   Time([](Config& c) -> auto& { return c.server.retention.keys; })),
      duration_key("retention.audit", "How long entries of the audit trail are kept.",
                   Time([](Config& c) -> auto& { return c.server.retention.audit; })),
      duration_key("retention.interval", "How often to remove what is too old.",
                   Time([](Config& c) -> auto& { return c.server.retention.interval; })),
      duration_key("retention.reap_interval", "How often to look for lapsed leases.",
                   Time([](Config& c) -> auto& { return c.server.retention.reap_interval; })),
      count_key("retention.batch", "Messages that are removed in one transaction, at most.",
                Count([](Config& c) -> auto& { return c.server.retention.batch; })),

      choice_key("enqueue.on_hash_mismatch", "When an id comes again with other content.",
                 kMismatchPolicies, Place<Config, HashMismatchPolicy>([](Config& c) -> auto& {
                   return c.server.enqueue.on_hash_mismatch;
                 })),
      choice_key(
          "enqueue.on_dead", "When a dead message comes again.", kDeadPolicies,
          Place<Config, DeadPolicy>([](Config& c) -> auto& { return c.server.enqueue.on_dead; })),

      texts_key("server.cors_origins", "Web pages of these origins may call; empty means none.",
                Texts([](Config& c) -> auto& { return c.server.cors_origins; })),
      flag_key("server.strict_inbox", "Refuse mark-processed without a leaseId.",
               Bool([](Config& c) -> auto& { return c.server.strict_inbox; })),
      count_key("server.io_threads",
                "Threads that read and write sockets; 0 means one for each core.",
                Count([](Config& c) -> auto& { return c.server.io_threads; })),
      count_key("server.call_threads", "Threads that wait for one database server, at most.",
                Count([](Config& c) -> auto& { return c.server.call_threads; })),
      count_key("server.max_queued_calls",
                "Calls that may wait for such a thread; a caller has a share.",
                Count([](Config& c) -> auto& { return c.server.max_queued_calls; })),
      duration_key("server.drain_timeout",
                   "How long requests under way may take when the server is to end.",
                   Time([](Config& c) -> auto& { return c.drain_timeout; })),

      path_key("discovery.file",
               "A file that lists stores, TOML or JSON, and is watched for changes.",
               Path([](Config& c) -> auto& { return c.discovery.file; })),
      text_key("discovery.database",
               "A control database that lists them: sqlite:PATH or postgresql://...",
               Text([](Config& c) -> auto& { return c.discovery.database; })),
      text_key("discovery.query", "What it is asked; answers two columns, name and URL.",
               Text([](Config& c) -> auto& { return c.discovery.query; })),
      duration_key("discovery.interval", "How often to look.",
                   Time([](Config& c) -> auto& { return c.discovery.interval; })),
      text_key("discovery.default_store",
               "The store that paths without a store's name mean; empty means the first of those "
               "that are listed here.",
               Text([](Config& c) -> auto& { return c.server.default_store; })),

      choice_key("log.level", "What is written at least.", kLogLevels,
                 Place<Config, LogLevel>([](Config& c) -> auto& { return c.log.level; })),
      choice_key("log.format", "Lines for people or for programs.", kLogFormats,
                 Place<Config, LogFormat>([](Config& c) -> auto& { return c.log.format; })),
      choice_key(
          "log.access", "Which requests are logged.", kAccessLogs,
          Place<Config, server::AccessLog>([](Config& c) -> auto& { return c.server.access_log; })),
      choice_key("log.messages",
                 "Which lines about single messages are logged; bounded: fifty a second of a kind, "
                 "and once a second how many more there were; off: none but warnings and errors.",
                 kMessageLogs, Place<Config, server::MessageLog>([](Config& c) -> auto& {
                   return c.server.message_log;
                 })),
  };
}

}  // namespace

std::string toml_text(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\u{:04x}", byte);
      continue;
    }
    if (character == '"' || character == '\\') result += '\\';
    result += character;
  }
  return result + "\"";
}

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> all = network_keys();
    for (auto&& keys_of_part : {limit_keys(), retry_keys(), recovery_keys(), behaviour_keys()}) {
      all.insert(all.end(), keys_of_part.begin(), keys_of_part.end());
    }
    return all;
  }();
  return keys;
}

const std::vector<StoreKey>& store_keys() {
  using StoreText = Place<StoreSetting, std::string>;
  static const std::vector<StoreKey> keys{
      text_key("stores.name", "In /v1/stores/NAME/...: letters, digits, - and _.",
               StoreText([](StoreSetting& s) -> auto& { return s.name; })),
      text_key("stores.url", "sqlite:PATH, postgresql://... or memory:",
               StoreText([](StoreSetting& s) -> auto& { return s.url; })),
  };
  return keys;
}

const std::vector<WebhookKey>& webhook_keys() {
  using HookText = Place<WebhookOptions, std::string>;
  using HookOptional = Place<WebhookOptions, std::optional<std::string>>;
  static const std::vector<WebhookKey> keys{
      text_key("webhooks.name", "In POST /v1/webhooks/NAME.",
               HookText([](WebhookOptions& w) -> auto& { return w.name; })),
      text_key("webhooks.store", "The store that takes them, a template; empty means the default.",
               HookText([](WebhookOptions& w) -> auto& { return w.store; })),
      choice_key("webhooks.scheme", "How the sender proves who it is.", kSchemes,
                 Place<WebhookOptions, WebhookScheme>(
                     [](WebhookOptions& w) -> auto& { return w.scheme; })),
      secrets_key(),
      text_key("webhooks.signature_header", "Scheme hmac: the header with the signature.",
               HookText([](WebhookOptions& w) -> auto& { return w.hmac.header; })),
      text_key("webhooks.signature_prefix",
               "Scheme hmac: what stands before the signature, such as \"sha256=\".",
               HookText([](WebhookOptions& w) -> auto& { return w.hmac.prefix; })),
      choice_key("webhooks.signature_algorithm", "Scheme hmac: the hash.", kAlgorithms,
                 Place<WebhookOptions, HmacAlgorithm>(
                     [](WebhookOptions& w) -> auto& { return w.hmac.algorithm; })),
      choice_key("webhooks.signature_encoding", "Scheme hmac: how the signature is written.",
                 kEncodings,
                 Place<WebhookOptions, SignatureEncoding>(
                     [](WebhookOptions& w) -> auto& { return w.hmac.encoding; })),
      duration_key(
          "webhooks.tolerance",
          "How far the sender's clock may be from ours, where a time is signed.",
          Place<WebhookOptions, Duration>([](WebhookOptions& w) -> auto& { return w.tolerance; })),
      text_key("webhooks.source",
               "The source of its messages. Here and below: {header:NAME}, {json:/pointer}, "
               "{name} and {sha256} stand for what the request has.",
               HookText([](WebhookOptions& w) -> auto& { return w.source; })),
      optional_text_key("webhooks.message_id", "The id; without it, the usual place of the scheme.",
                        HookOptional([](WebhookOptions& w) -> auto& { return w.message_id; })),
      optional_text_key("webhooks.topic", "The topic; without it, the usual place of the scheme.",
                        HookOptional([](WebhookOptions& w) -> auto& { return w.topic; })),
      optional_text_key("webhooks.partition_key", "Messages with the same one keep their order.",
                        HookOptional([](WebhookOptions& w) -> auto& { return w.partition_key; })),
  };
  return keys;
}

std::string_view section_text(std::string_view section) {
  if (section == "listen") return "Where the server listens.";
  if (section == "tls") return "HTTPS. The files are read again on SIGHUP.";
  if (section == "auth") {
    return "Bearer tokens. Without any, every caller may do everything. Read again on SIGHUP.";
  }
  if (section == "limits") return "What clients can take at most.";
  if (section == "retention") return "How long things are kept.";
  if (section == "retry") {
    return "What happens to messages of the inbox that fail, and how fast they are handed out, "
           "unless [[topics]] or \"oncebox topics set\" says otherwise. What is set here is set in "
           "every store when it is opened; what is not stays as it is there. \"default\" clears "
           "what "
           "a store has, so that it is as the queue does by itself.";
  }
  if (section == "watchdog") return "When /v1/health is degraded.";
  if (section == "notices") return "Who is told that messages die, beside the log.";
  if (section == "publishing") {
    return "Whether and how the outboxes are published; see [[publish]] below.";
  }
  if (section == "enqueue") return "How duplicates are treated, where the sender does not say it.";
  if (section == "server") return "How the server works.";
  if (section == "discovery") {
    return "Stores that come and go while the server runs, beside those that are listed below. "
           "Looked for again on SIGHUP.";
  }
  if (section == "log")
    return "What it writes to standard error. The level is read again on SIGHUP.";
  return {};
}

std::string variable_of(std::string_view path) {
  std::string name = "ONCEBOX_";
  for (const char character : path) {
    const auto byte = static_cast<unsigned char>(character);
    name += character == '.' ? '_' : static_cast<char>(std::toupper(byte));
  }
  return name;
}

}  // namespace oncebox::app
