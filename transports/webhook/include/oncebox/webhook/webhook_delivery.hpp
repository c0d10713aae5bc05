#pragma once

#include <optional>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/message.hpp"
#include "oncebox/webhook/webhook_client.hpp"
#include "oncebox/webhook/webhook_signer.hpp"

/// What publishers make of a message and of a receiver's answer; see `WebhookPublisher`.
namespace oncebox::webhook {

/// A receiver, and what every request to it says.
struct WebhookTarget {
  std::string url;
  WebhookSigner signer;
  std::string content_type = "application/json";  ///< of messages whose headers name none
  FieldLines fields = {};                         ///< besides those that we make ourselves
  std::optional<Duration> timeout = {};
  bool allow_private = false;
  std::string lane = {};   ///< see `WebhookRequest`
  std::string group = {};  ///< the same
};

/// The request for a message. It borrows the payload.
[[nodiscard]] WebhookRequest request_for(const WebhookTarget& target, const ClaimedMessage& message,
                                         TimePoint now);

/// Thrown for a receiver that wants no request of this kind any more.
class ReceiverGone : public PermanentFailure {
 public:
  using PermanentFailure::PermanentFailure;
};

/// Returns when the receiver has accepted the message, and throws as a `Publisher` does otherwise:
/// `ReceiverGone` for 410, and `NotNow` when no connection was free, because that is no attempt.
/// `max_retry_after` is the longest that it may ask us to wait.
void require_accepted(const WebhookAnswer& answer, Duration max_retry_after);

}  // namespace oncebox::webhook
