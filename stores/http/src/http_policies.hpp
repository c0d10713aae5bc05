#pragma once

#include "http_client.hpp"
#include "oncebox/topic_policy.hpp"

namespace oncebox::http {

/// The rules for topics that the service's store keeps.
class HttpPolicies final : public PolicyStore {
 public:
  explicit HttpPolicies(HttpClient& client) : client_(client) {}

 private:
  std::vector<TopicRule> do_rules(QueueKind queue) override;
  TopicPolicy do_update(QueueKind queue, const TopicPattern& pattern,
                        const TopicPolicyChange& change, const PolicyOptions& options) override;
  bool do_remove(QueueKind queue, const TopicPattern& pattern,
                 const PolicyOptions& options) override;

  HttpClient& client_;
};

}  // namespace oncebox::http
