#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/hmac.hpp"

namespace oncebox::server {

/// How the sender of a webhook proves who it is.
enum class WebhookScheme {
  stripe,             ///< Stripe-Signature: t=…,v1=…
  github,             ///< X-Hub-Signature-256: sha256=…
  standard_webhooks,  ///< webhook-id and so on (standardwebhooks.com), or svix-id and so on
  hmac,               ///< any header, by `HmacOptions`
  none,               ///< nothing is checked
};

using oncebox::HmacAlgorithm;
enum class SignatureEncoding { hex, base64 };

struct HmacOptions {
  std::string header = {};
  std::string prefix = {};  ///< before the signature in the header, as "sha256="
  HmacAlgorithm algorithm = HmacAlgorithm::sha256;
  SignatureEncoding encoding = SignatureEncoding::hex;
};

/// One address for webhooks: `POST /v1/webhooks/{name}`.
///
/// The templates name what becomes of a request: text with `{header:NAME}`, `{json:/pointer}`,
/// `{path}` (what stands behind the name in the address), `{name}` and `{sha256}` (of the body) in
/// it. Where the request has no such value the template gives nothing: an id then falls back to the
/// body's sha256, a topic to the webhook's name. A request that names no store is refused.
struct WebhookOptions {
  std::string name;
  std::string store = {};  ///< a template, too; empty: the default one
  WebhookScheme scheme = WebhookScheme::hmac;
  /// Several are valid at once, so that one can be replaced without a gap. Those of Standard
  /// Webhooks are `whsec_` and base64, or public keys of Ed25519, `whpk_` and base64.
  std::vector<std::string> secrets = {};
  HmacOptions hmac = {};
  /// How far the sender's time may be from ours, where the scheme signs one.
  Duration tolerance = std::chrono::minutes{5};
  std::string source = "{name}";
  std::optional<std::string> message_id = {};  ///< nothing: the usual place of the scheme
  std::optional<std::string> topic = {};       ///< nothing: the usual place of the scheme
  std::optional<std::string> partition_key = {};

  /// Whether requests name the store, by a placeholder in its template.
  [[nodiscard]] bool has_store_by_request() const noexcept {
    return store.find('{') != std::string::npos;
  }
};

}  // namespace oncebox::server
