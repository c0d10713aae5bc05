#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/endpoint_store.hpp"
#include "oncebox/message.hpp"
#include "oncebox/store.hpp"
#include "oncebox/topic_policy_change.hpp"

/// Endpoints together with the rule for their deliveries.
namespace oncebox::publish {

/// How many deliveries to an endpoint run at once unless its rule says otherwise, so that one that
/// hangs leaves room for the others.
inline constexpr std::size_t kUsualConcurrency = 4;

/// What a new endpoint is checked for beyond `Endpoint::validate`: a webhook has a secret that it
/// can be signed with, and no header is one that every request has anyway. References are not
/// resolved here. Throws `invalid_argument`.
void require_deliverable(const Endpoint& endpoint);

/// The schemes of the URLs that `standard_publishers` publish to.
inline constexpr std::array<std::string_view, 4> kStandardSchemes = {
    "https", "http", "oncebox+https", "oncebox+http"};

/// The same, and that one of the standard publishers takes its URL: for endpoints that no publisher
/// of the user's own is for.
void require_standard(const Endpoint& endpoint);

/// Saves an endpoint, and changes the rule for its deliveries. One that is new, and has no rule
/// that limits how many run at once, gets the usual limit. Throws as `EndpointStore::save` and
/// `PolicyStore::update` do; the rule is changed first, so that none goes without, but not for an
/// endpoint that would be refused.
EndpointSaved save_endpoint(Store& store, const Endpoint& endpoint,
                            const TopicPolicyChange& policy = {},
                            const EndpointOptions& options = {});

/// Sends a message of its own to an endpoint, whatever its topics and before all others, with the
/// topic `kTestTopic`: whoever publishes for the store delivers it, if it does so `within` that
/// time. Answers the key of the delivery, whose record tells what came of it. Throws `not_found`
/// when there is no such endpoint, and `out_of_range`.
MessageKey send_test(Store& store, const EndpointName& name, Duration within,
                     const Clock& clock = SystemClock::shared());

/// Removes an endpoint and its rule; false when there is none.
bool remove_endpoint(Store& store, const EndpointName& name);

}  // namespace oncebox::publish
