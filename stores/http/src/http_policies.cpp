#include "http_policies.hpp"

#include <string>
#include <string_view>

#include "http_queue.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/policy_json.hpp"

namespace oncebox::http {

namespace {

std::string policies_path(QueueKind queue, std::string_view path) {
  return std::string(path_of(queue)) + std::string(path);
}

}  // namespace

std::vector<TopicRule> HttpPolicies::do_rules(QueueKind queue) {
  const ApiCall call{.method = Method::get,
                     .path = policies_path(queue, "/topics/policies"),
                     .effect = Effect::reads};
  return client_.call(call, wire::read_policies);
}

TopicPolicy HttpPolicies::do_update(QueueKind queue, const TopicPattern& pattern,
                                    const TopicPolicyChange& change, const PolicyOptions& options) {
  const ApiCall call{.path = policies_path(queue, "/topics/policies"),
                     .body = wire::write_policy_call({pattern, change, options.reason}),
                     .effect = Effect::repeats};
  return client_.call(call, wire::read_policy).policy;
}

bool HttpPolicies::do_remove(QueueKind queue, const TopicPattern& pattern,
                             const PolicyOptions& options) {
  const ApiCall call{.path = policies_path(queue, "/topics/policies/remove"),
                     .body = wire::write_policy_call({pattern, {}, options.reason})};
  return client_.call(call, wire::read_count) > 0;
}

}  // namespace oncebox::http
