#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/webhook/webhook_signer.hpp"

namespace oncebox::webhook {

struct WebhookClientOptions {
  Duration connect_timeout = std::chrono::seconds{5};
  /// Of one request as a whole: also of its wait for a connection, and however slowly its answer
  /// comes.
  Duration timeout = std::chrono::seconds{30};
  std::filesystem::path ca_file = {};  ///< trusted certificates, PEM; empty: the system's
  /// Of an answer's body. A longer one is not read to its end, and counts by its status.
  std::size_t max_answer_bytes = std::size_t{64} << 10;
  /// That one host, or one `WebhookRequest::lane`, may have at once. Further requests wait.
  std::size_t max_connections_per_host = 16;
  /// In all. The second half is kept for hosts that have none: so those that hang hold up no
  /// others, unless there are more of them than that. Nor does a `WebhookRequest::group`: while it
  /// alone has any, it may have all but the last eighth; otherwise it gets more while it has fewer
  /// than are free of these, and of its part the second half is for those of its hosts that have
  /// none. The last eighth is kept for groups that have fewer than four, and fewer than are left.
  std::size_t max_connections = 512;
  /// That the proxies of the environment (`https_proxy` and so on) refuse private addresses
  /// themselves; see `WebhookRequest::allow_private`.
  bool proxy_checks_addresses = false;

  /// Throws `out_of_range`, naming the option.
  void validate() const;
};

/// One HTTP POST, ready to be sent.
struct WebhookRequest {
  std::string url;
  /// Borrowed and never copied: it belongs to the caller and stays as it is until `on_answer`
  /// begins, or `post` returns.
  std::string_view body = {};
  std::string content_type = "application/json";  ///< empty: none; it is not among the fields
  /// Sent as they are, for example those of `WebhookSigner::fields`. Left out are lines with a
  /// control character or without a value, names that are none, and what would change where the
  /// request ends or goes to: Host, Connection, Content-Length, Transfer-Encoding and their like.
  FieldLines fields = {};
  /// Whether the address may be of this machine or of a private network; otherwise only those that
  /// `is_public_address` are connected to. They are looked at after the name was resolved, when the
  /// connection is made, and again when one that was kept is used: no name can change in between.
  ///
  /// A proxy of the environment would resolve the name and connect in our place. Requests that
  /// allow private addresses go through it. Others fail, unless `proxy_checks_addresses` says that
  /// the proxy keeps them out of private networks; its own address is not looked at, and those that
  /// are spelt out in the URL are refused here all the same.
  bool allow_private = false;
  std::optional<Duration> connect_timeout = {};  ///< 1 ms to 1 h; nothing: the client's
  std::optional<Duration> timeout = {};          ///< the same
  /// Whether the body of the answer is wanted, up to `max_answer_bytes`.
  bool keep_answer = false;
  /// Whose connections it takes (`max_connections_per_host`); empty: those of its host and port.
  /// Tenants whose receivers share a host get a lane each, so that one holds up no other.
  std::string lane = {};
  /// Who shares the connections of the client (`max_connections`): a tenant with all its lanes, for
  /// example. Empty: nobody, the lane stands for itself. Lanes of different groups are different.
  std::string group = {};
};

/// What a status means to the sender.
enum class WebhookAcceptance {
  taken,    ///< 2xx
  gone,     ///< 410: the receiver wants no request of this kind any more
  refused,  ///< another 4xx than those below: the same request will never be taken
  /// Nobody answered, 408, 409, 425, 429, 5xx, or a redirection, which is not followed; 404 and
  /// 405, too, with which a receiver answers everything after a bad deployment.
  may_pass,
};

struct WebhookAnswer {
  int status = 0;            ///< 0: there is no answer, or no whole one
  std::string failure = {};  ///< why there is none; names neither address nor content
  /// It was cancelled, or the client was destroyed. The receiver may have got the request.
  bool stopped = false;
  /// It waited for a connection until its time was over: nobody got the request.
  bool never_sent = false;
  /// Of `Retry-After`, in seconds or as a date: more than 0, and at most a year.
  std::optional<Duration> retry_after = {};
  std::string body = {};  ///< if the request keeps it
  bool is_cut = false;    ///< the body was longer than `max_answer_bytes`

  [[nodiscard]] WebhookAcceptance acceptance() const noexcept;
};

/// Posts requests, any number of them at once, on one thread of its own: those that hang hold up no
/// others. Follows no redirection, verifies certificates, speaks HTTP/1.1, keeps connections open
/// for 45 seconds between requests, and logs nothing. Safe from any thread.
class WebhookClient {
 public:
  /// Called on the client's thread, while nothing else is sent or received: it must be quick, must
  /// not throw and must not wait, for `post` least of all. It may send.
  using OnAnswer = std::function<void(WebhookAnswer)>;

  /// The clock is borrowed. Throws as `WebhookClientOptions::validate` does, and `internal` when
  /// libcurl does not work.
  explicit WebhookClient(const WebhookClientOptions& options = {},
                         const Clock& clock = SystemClock::shared());
  /// Whatever has no answer yet gets one before it returns, `stopped`. Nobody may send any more.
  ~WebhookClient();
  WebhookClient(const WebhookClient&) = delete;
  WebhookClient& operator=(const WebhookClient&) = delete;

  /// Returns at once. `on_answer` is called once, whatever happens, also when the request
  /// cannot be sent; only when `send` itself throws, for lack of memory, it is not. A stop that is
  /// requested cancels the request, wherever it is.
  void send(WebhookRequest request, OnAnswer on_answer, const std::stop_token& stop = {});

  /// Sends, and waits for the answer. Throws `bad_alloc`.
  [[nodiscard]] WebhookAnswer post(const WebhookRequest& request, const std::stop_token& stop = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Throws `invalid_argument` unless it begins with `https://` or `http://` and a host, whose port,
/// if there is one, is possible.
void require_webhook_url(std::string_view url);

}  // namespace oncebox::webhook
