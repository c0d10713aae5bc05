#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/dispatch/publisher.hpp"
#include "oncebox/endpoint.hpp"
#include "oncebox/webhook/webhook_client.hpp"

namespace oncebox::publish {

/// An endpoint as a publisher is made for it.
struct EndpointTarget {
  const Endpoint& endpoint;
  std::vector<std::string> secrets;  ///< the secrets themselves
  std::string lane;                  ///< names the endpoint among those of all stores
  std::string group = {};            ///< names the store; empty: none has a part of its own
};

/// Makes the publisher of an endpoint. Throws `invalid_argument` for one that makes no sense: then
/// its deliveries are tried again until it does. Called from several threads at once.
using MakePublisher = std::function<std::shared_ptr<Publisher>(const EndpointTarget& target)>;
using MakeAsyncPublisher =
    std::function<std::shared_ptr<AsyncPublisher>(const EndpointTarget& target)>;

/// What publishes to an endpoint, by the scheme of its URL.
///
///     EndpointPublishers publishers = standard_publishers();
///     publishers.on_async("amqp", [&](const EndpointTarget& target) {
///       return std::make_shared<BrokerPublisher>(broker, target.endpoint.url);
///     });
///
/// A `Publisher` keeps a worker of `PublishingOptions::deliveries` while it waits for its receiver;
/// an `AsyncPublisher` keeps none.
class EndpointPublishers {
 public:
  /// The last one for a scheme counts. `scheme` is what stands before `://`.
  EndpointPublishers& on(std::string scheme, MakePublisher make);
  EndpointPublishers& on_async(std::string scheme, MakeAsyncPublisher make);

  /// Throws `unsupported` when the scheme is not known, and what the maker throws.
  [[nodiscard]] std::shared_ptr<AsyncPublisher> make(const EndpointTarget& target) const;
  [[nodiscard]] bool knows(std::string_view url) const noexcept;

 private:
  std::map<std::string, MakeAsyncPublisher, std::less<>> makers_;
};

struct StandardPublisherOptions {
  webhook::WebhookClientOptions client = {};
  /// The longest that a receiver may ask us to wait.
  Duration max_retry_after = std::chrono::hours{1};
};

/// Those for `https` and `http`, signed webhooks as `webhook::WebhookPublisher` makes them, and for
/// `oncebox+https` and `oncebox+http`, another Oncebox: `oncebox+https://host/v1` is its default
/// store, `oncebox+https://host/v1/stores/NAME` the one of that name, and the first secret is the
/// token. One client serves all of them, on one thread, and stores share its connections
/// (`EndpointTarget::group`). The clock is borrowed. Throws as the client does.
///
/// Both fail by `webhook::ReceiverGone` when the receiver answers 410.
[[nodiscard]] EndpointPublishers standard_publishers(const StandardPublisherOptions& options = {},
                                                     const Clock& clock = SystemClock::shared());

}  // namespace oncebox::publish
