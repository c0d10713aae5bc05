#include "http_policies.hpp"

#include <string>
#include <string_view>

#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/policy_json.hpp"

namespace oncebox::http {

namespace {

std::string path_of(QueueKind queue, std::string_view path) {
  return (queue == QueueKind::outbox ? "/outbox" : "") + std::string(path);
}

}  // namespace

std::vector<TopicRule> HttpPolicies::do_rules(QueueKind queue) {
  const ApiCall call{
      .method = Method::get, .path = path_of(queue, "/topics/policies"), .effect = Effect::reads};
  return client_.call(call, wire::read_policies);
}

TopicPolicy HttpPolicies::do_update(QueueKind queue, const TopicPattern& pattern,
                                    const TopicPolicyChange& change, const PolicyOptions& options) {
  const ApiCall call{.path = path_of(queue, "/topics/policies"),
                     .body = wire::write_policy_call({pattern, change, options.reason}),
                     .effect = Effect::repeats};
  return client_.call(call, wire::read_policy).policy;
}

bool HttpPolicies::do_remove(QueueKind queue, const TopicPattern& pattern,
                             const PolicyOptions& options) {
  const ApiCall call{.path = path_of(queue, "/topics/policies/remove"),
                     .body = wire::write_policy_call({pattern, {}, options.reason})};
  return client_.call(call, wire::read_count) > 0;
}

}  // namespace oncebox::http
