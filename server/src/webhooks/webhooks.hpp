#pragma once

#include <memory>
#include <vector>

#include "api/served_stores.hpp"
#include "http/router.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/webhook_options.hpp"

namespace oncebox::server {

/// Throws `invalid_argument` or `out_of_range`, naming the webhook and the option, for one that
/// cannot work whatever stores there are: no secret, a template that cannot be read, a name that is
/// there twice.
void validate_webhooks(const std::vector<WebhookOptions>& webhooks);

/// `POST /v1/webhooks/{name}`, and with a path behind it where templates use it: checks the
/// signature, names the message by the templates, and answers once it is stored. A duplicate is a
/// success, too. Senders have no token: the signature is their proof.
class Webhooks {
 public:
  /// Everything but the options is borrowed until the last call has ended: large bodies are checked
  /// on the threads of `calls`. Throws as `validate_webhooks` does. Whether the store of a webhook
  /// is there is seen when a request comes.
  Webhooks(const std::vector<WebhookOptions>& webhooks, FindStore find_store, CallPool& calls,
           Metrics& metrics, Logger& logger, const Clock& clock);
  ~Webhooks();
  Webhooks(const Webhooks&) = delete;
  Webhooks& operator=(const Webhooks&) = delete;

  void add_routes(Router& router);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // answers that are under way share it
};

}  // namespace oncebox::server
