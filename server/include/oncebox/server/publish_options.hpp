#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/endpoint.hpp"
#include "oncebox/topic_policy_change.hpp"

namespace oncebox::server {

/// An endpoint that the server sets in its stores when it has opened them; see `Endpoint`. One that
/// is taken out of the configuration stays in the stores until somebody removes it there.
struct PublishEndpoint {
  std::string name;
  std::string store = {};  ///< in this store alone; empty: in every store
  std::string url = {};
  std::vector<std::string> topics = {"*"};
  /// References: `env:NAME`, `file:PATH` or `literal:` and the secret. They are kept as they are
  /// written here, and resolved by whoever publishes.
  std::vector<std::string> secrets = {};
  std::vector<std::string> headers = {};  ///< "Name: value", of every request
  std::optional<Duration> timeout = {};
  bool allow_private = false;
  Duration disable_after = std::chrono::days{5};
  /// Of its deliveries: attempts, delays, limits.
  TopicPolicyChange policy = {};

  /// Throws `invalid_argument` or `out_of_range`, naming the field and never a secret.
  [[nodiscard]] Endpoint endpoint() const;
};

struct PublishOptions {
  /// Whether the server publishes the outboxes of its stores; any endpoint here says so, too. Turn
  /// it on only where nobody else works on the outboxes: what no endpoint wants is done.
  bool enabled = false;
  std::size_t workers = 16;  ///< threads that begin deliveries; one under way keeps none
  Duration timeout = std::chrono::seconds{30};  ///< of one attempt, unless the endpoint has its own
  Duration max_retry_after = std::chrono::hours{1};  ///< that a receiver may ask us to wait
  /// PEM, the authorities that receivers have their certificates from; empty: the system's.
  std::filesystem::path ca_file = {};
  /// Whether the proxies of the environment refuse private addresses themselves. Without that, only
  /// endpoints with `allow_private` are called through them, and the others fail.
  bool proxy_checks_addresses = false;
  /// Whether callers with the scope operate may have the server call addresses of its machine and
  /// of private networks, by endpoints that they set over HTTP.
  bool private_over_http = false;
  std::vector<PublishEndpoint> endpoints = {};

  [[nodiscard]] bool is_on() const noexcept { return enabled || !endpoints.empty(); }
  /// Throws `out_of_range` or `invalid_argument`, naming the option.
  void validate() const;
};

}  // namespace oncebox::server
