#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/hmac.hpp"

namespace oncebox::webhook {

/// Names and values of field lines, in their order.
using FieldLines = std::vector<std::pair<std::string, std::string>>;

/// The key of a symmetric secret as Standard Webhooks has them, `whsec_` and base64; the prefix may
/// be missing. Throws `invalid_argument`, without quoting it.
[[nodiscard]] std::string decode_standard_secret(std::string_view secret);

/// Signs as Standard Webhooks says (standardwebhooks.com): HMAC-SHA256 of id, timestamp and body.
/// Safe from any thread.
class WebhookSigner {
 public:
  /// Signs with each of the secrets, so that a receiver can change from one to the next. Throws
  /// `invalid_argument` when there is none, or one is not `whsec_` and base64.
  explicit WebhookSigner(const std::vector<std::string>& secrets);

  /// The value of `webhook-signature`: `v1,…`, one for each secret. `timestamp` is that of
  /// `webhook-timestamp`, Unix seconds; an id with a dot in it could be taken for another.
  [[nodiscard]] std::string sign(std::string_view id, std::string_view timestamp,
                                 std::string_view body) const;

  /// `webhook-id`, `webhook-timestamp` and `webhook-signature` for a request that is sent now.
  [[nodiscard]] FieldLines fields(std::string_view id, TimePoint now, std::string_view body) const;

 private:
  std::vector<HmacKey> keys_;
};

}  // namespace oncebox::webhook
