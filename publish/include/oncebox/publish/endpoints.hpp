#pragma once

#include <cstddef>

#include "oncebox/endpoint_store.hpp"
#include "oncebox/store.hpp"
#include "oncebox/topic_policy_change.hpp"

/// Endpoints together with the rule for their deliveries.
namespace oncebox::publish {

/// How many deliveries to an endpoint run at once unless its rule says otherwise, so that one that
/// hangs leaves room for the others.
inline constexpr std::size_t kUsualConcurrency = 4;

/// What a new endpoint is checked for beyond `Endpoint::validate`: a webhook has a secret that it
/// can be signed with. References are not resolved here. Throws `invalid_argument`.
void require_deliverable(const Endpoint& endpoint);

/// Saves an endpoint, and changes the rule for its deliveries. One that is new, and has no rule
/// that limits how many run at once, gets the usual limit. Throws as `EndpointStore::save` and
/// `PolicyStore::update` do; the rule is changed first, so that none goes without, but not for an
/// endpoint that would be refused.
EndpointSaved save_endpoint(Store& store, const Endpoint& endpoint,
                            const TopicPolicyChange& policy = {},
                            const EndpointOptions& options = {});

/// Removes an endpoint and its rule; false when there is none.
bool remove_endpoint(Store& store, const EndpointName& name);

}  // namespace oncebox::publish
