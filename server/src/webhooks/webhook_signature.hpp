#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_message.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/server/webhook_options.hpp"

namespace oncebox::server {

enum class SignatureCheck {
  good,
  missing,    ///< a header that the scheme needs is not there
  malformed,  ///< it is there, but is not of the scheme's form
  wrong,      ///< no secret makes this signature
  untimely,   ///< rightly signed, but too long ago or too far ahead
};

/// For the sender: what is wrong, and nothing that would help to forge a signature.
[[nodiscard]] std::string_view explanation(SignatureCheck check) noexcept;

/// Checks the proof of one webhook's sender. Keeps its secrets only as keys that are ready for use.
/// Safe from any thread.
class WebhookSignature {
 public:
  /// Throws `invalid_argument` or `out_of_range` saying which option cannot work.
  explicit WebhookSignature(const WebhookOptions& options);
  ~WebhookSignature();
  WebhookSignature(WebhookSignature&&) noexcept;

  /// Takes the same time whichever secret is right, and however much of a signature is.
  [[nodiscard]] SignatureCheck check(const Request& request, TimePoint now) const;

 private:
  class Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace oncebox::server
