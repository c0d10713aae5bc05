#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/headers.hpp"
#include "oncebox/names.hpp"
#include "oncebox/topic_pattern.hpp"

/// Endpoints: where the messages of an outbox go.
namespace oncebox {

struct EndpointNameTag {
  static constexpr std::string_view kWhat = "endpoint's name";
  static constexpr std::size_t kMaxCodePoints = 64;
};
/// What people and rules know an endpoint by, for example "crm". It is the topic of its deliveries.
using EndpointName = Name<EndpointNameTag>;

/// Where messages of some topics go, as an operator set it. How often and when a delivery is tried
/// again, how many run at once and whether it is paused is said by the policy of the topic of this
/// name in the queue of deliveries; see `TopicPolicy`.
struct Endpoint {
  static constexpr std::size_t kMaxTopics = 64;
  static constexpr std::size_t kMaxSecrets = 10;
  static constexpr std::size_t kMaxTextBytes = 2'048;  ///< of the URL, and of each secret
  static constexpr Duration kMaxTimeout = std::chrono::hours{1};

  EndpointName name;
  /// Its scheme says what it is: `https://…` and `http://…` are signed webhooks,
  /// `oncebox+https://…` and `oncebox+http://…` another Oncebox. Others are for publishers of the
  /// user's own.
  std::string url = {};
  /// A message goes here when any of them matches its topic. None: the endpoint gets nothing.
  std::vector<TopicPattern> topics = {TopicPattern("*")};
  /// References such as `env:NAME` or `file:PATH`, or `literal:` and the secret itself. A webhook
  /// is signed with each of them, so that the receiver can change from one to the next; another
  /// Oncebox is sent the first as its token. Nothing: in a list they were left out, and `save`
  /// keeps those that are there.
  std::optional<std::vector<std::string>> secrets = {};
  Headers headers = {};                  ///< of every request, as they are
  std::optional<Duration> timeout = {};  ///< of one attempt; nothing: the publisher's own
  /// Whether addresses of this machine and of private networks may be called.
  bool allow_private = false;
  /// It is disabled when its deliveries have failed for so long, none succeeded, and failures came
  /// all the time: see `status_after`. Zero: never.
  Duration disable_after = std::chrono::days{5};

  /// Throws `invalid_argument` or `out_of_range`, naming the field and never a secret.
  void validate() const;
  /// Whether a message of this topic goes here.
  [[nodiscard]] bool takes(std::string_view topic) const noexcept;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Whether a secret is a `literal:`, and names nothing of the machine that delivers.
[[nodiscard]] bool is_literal_secret(std::string_view reference) noexcept;

/// What has become of an endpoint.
struct EndpointStatus {
  struct Disabled {
    TimePoint at{};
    std::string reason = {};

    friend bool operator==(const Disabled&, const Disabled&) = default;
  };

  /// Since when deliveries have failed, without one that succeeded or a long pause in between.
  std::optional<TimePoint> failing_since = {};
  /// The last of these failures, to a fortieth of `Endpoint::disable_after`.
  std::optional<TimePoint> last_failure = {};
  /// It gets nothing new, and what is under way to it fails, until it is enabled.
  std::optional<Disabled> disabled = {};

  friend bool operator==(const EndpointStatus&, const EndpointStatus&) = default;
};

/// What happened to an endpoint.
struct EndpointEvent {
  enum class Kind { failed, worked, disabled, enabled };

  Kind kind = Kind::failed;
  TimePoint at{};
  std::string reason = {};  ///< why it was disabled or enabled; a text that is too long is cut
};

struct EndpointRecord {
  Endpoint endpoint;
  EndpointStatus status = {};

  friend bool operator==(const EndpointRecord&, const EndpointRecord&) = default;
};

/// The status that follows. Failures count from the first, and a success ends that; so does a pause
/// of a quarter of `disable_after` without a failure, which begins anew: an endpoint that nobody
/// sends to is not disabled because of two failures that are days apart. A disabled endpoint stays
/// as it is until it is enabled.
[[nodiscard]] EndpointStatus status_after(const EndpointRecord& known, const EndpointEvent& event);

/// Whether the failures have lasted for `disable_after` at this time.
[[nodiscard]] bool has_failed_too_long(const EndpointRecord& known, TimePoint now) noexcept;

}  // namespace oncebox
