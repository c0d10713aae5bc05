#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/ed25519.hpp"
#include "oncebox/hmac.hpp"

namespace oncebox::webhook {

/// Names and values of field lines, in their order.
using FieldLines = std::vector<std::pair<std::string, std::string>>;

/// The key of a symmetric secret as Standard Webhooks has them, `whsec_` and base64; the prefix may
/// be missing. Throws `invalid_argument`, without quoting it.
[[nodiscard]] std::string decode_standard_secret(std::string_view secret);

/// The 32 bytes of a public key, `whpk_` and base64. Throws `invalid_argument`.
[[nodiscard]] std::string decode_public_key(std::string_view key);

/// What a receiver checks the signatures of a `whsk_` secret with: `whpk_` and base64. It may be
/// shown to anybody. Throws `invalid_argument` for another kind of secret, without quoting it.
[[nodiscard]] std::string public_key_of(std::string_view secret);

/// Signs as Standard Webhooks says (standardwebhooks.com), id, timestamp and body: by HMAC-SHA256
/// with secrets that the receiver has, too (`whsec_`), and by Ed25519 with secrets of which the
/// receiver has the public key alone (`whsk_`, and 32 or 64 bytes in base64; `public_key_of`).
/// Makes nothing but field lines; who sends them is not its concern. Safe from any thread.
class WebhookSigner {
 public:
  /// Signs with each of the secrets, so that a receiver can change from one to the next, also from
  /// one kind to the other. Throws `invalid_argument`, without quoting it, when there is none, or
  /// one is of neither kind.
  explicit WebhookSigner(const std::vector<std::string>& secrets);

  /// The value of `webhook-signature`: `v1,…` or `v1a,…`, one for each secret, in their order.
  /// `timestamp` is that of `webhook-timestamp`, Unix seconds; an id with a dot in it could be
  /// taken for another.
  [[nodiscard]] std::string sign(std::string_view id, std::string_view timestamp,
                                 std::string_view body) const;

  /// `webhook-id`, `webhook-timestamp` and `webhook-signature` for a request that is sent now.
  [[nodiscard]] FieldLines fields(std::string_view id, TimePoint now, std::string_view body) const;

 private:
  std::vector<std::variant<HmacKey, Ed25519SecretKey>> keys_;
};

}  // namespace oncebox::webhook
