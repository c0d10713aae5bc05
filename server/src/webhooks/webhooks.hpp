#pragma once

#include <memory>
#include <vector>

#include "api/hosted_store.hpp"
#include "http/router.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/webhook_options.hpp"

namespace oncebox::server {

class Metrics;

/// `POST /v1/webhooks/{name}`: checks the signature, names the message by the templates, and
/// answers once it is stored. A duplicate is a success, too. Senders have no token: the signature
/// is their proof.
class Webhooks {
 public:
  /// Stores, metrics, logger and clock are borrowed. Throws `invalid_argument`, naming the webhook
  /// and the option, for one that cannot work (no secret, a template that cannot be read, an
  /// unknown store).
  Webhooks(const std::vector<WebhookOptions>& webhooks, HostedStores& stores, Metrics& metrics,
           Logger& logger, const Clock& clock);
  ~Webhooks();
  Webhooks(const Webhooks&) = delete;
  Webhooks& operator=(const Webhooks&) = delete;

  void add_routes(Router& router);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::server
