#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/webhook/webhook_signer.hpp"

namespace oncebox::webhook {

struct WebhookClientOptions {
  Duration connect_timeout = std::chrono::seconds{5};
  Duration timeout = std::chrono::seconds{30};  ///< of one attempt as a whole
  std::filesystem::path ca_file = {};           ///< trusted certificates, PEM; empty: the system's
  /// Of an answer's body, which nobody looks at. A longer one is not read to its end.
  std::size_t max_answer_bytes = std::size_t{64} << 10;

  /// Throws `out_of_range`, naming the option.
  void validate() const;
};

struct WebhookRequest {
  std::string url;
  std::string id;  ///< the same in every attempt, by which the receiver knows a repetition
  std::string_view body;
  std::string content_type = "application/json";
  /// Further field lines. Those with a control character in them are left out.
  std::vector<std::pair<std::string, std::string>> fields = {};
};

/// What a status means to the sender.
enum class WebhookAcceptance {
  taken,    ///< 2xx
  refused,  ///< another 4xx than those below: the same request will never be taken
  /// Nobody answered, 408, 409, 425, 429, 5xx, or a redirection, which is not followed; 404 and
  /// 405, too, with which a receiver answers everything after a bad deployment.
  may_pass,
};

struct WebhookAnswer {
  int status = 0;            ///< 0: nobody answered
  std::string failure = {};  ///< why nobody did; names neither address nor content
  std::optional<Duration> retry_after = {};

  [[nodiscard]] WebhookAcceptance acceptance() const noexcept;
};

/// Posts signed webhooks. Follows no redirection, verifies certificates, keeps connections open
/// between requests, and logs nothing. Safe from any thread.
class WebhookClient {
 public:
  /// The clock is borrowed. Throws as `WebhookClientOptions::validate` does.
  WebhookClient(const WebhookClientOptions& options, const Clock& clock);
  ~WebhookClient();
  WebhookClient(const WebhookClient&) = delete;
  WebhookClient& operator=(const WebhookClient&) = delete;

  /// Sends once, with the time of now, and waits for the answer; a stop that is requested ends
  /// that. Throws `internal` only when libcurl does not work.
  [[nodiscard]] WebhookAnswer post(const WebhookRequest& request, const WebhookSigner& signer,
                                   const std::stop_token& stop = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Throws `invalid_argument` unless it begins with `https://` or `http://` and a host, whose port,
/// if there is one, is possible.
void require_webhook_url(std::string_view url);

}  // namespace oncebox::webhook
