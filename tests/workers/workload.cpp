#include "workload.hpp"

#include <array>
#include <cstdint>
#include <utility>

namespace oncebox::workers {

namespace {

constexpr std::array<std::pair<Plan, const char*>, 6> kTopics{{
    {Plan::succeeds, "succeeds"},
    {Plan::succeeds_slowly, "succeeds.slowly"},
    {Plan::stumbles, "stumbles"},
    {Plan::fails, "fails"},
    {Plan::fails_for_good, "fails.for-good"},
    {Plan::kills_its_worker, "kills"},
}};

// FNV-1a: the same in every process.
std::uint64_t hash_of(const std::string& id) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash ^ (hash >> 32);
}

// Slow ones are rare: a few of them keep all workers busy for as long as a process lives.
Plan plan_for(std::uint64_t hash) {
  const std::uint64_t draw = hash % 256;
  if (draw < 1) return Plan::succeeds_slowly;
  if (draw < 8) return Plan::fails;
  if (draw < 16) return Plan::fails_for_good;
  if (draw < 32) return Plan::stumbles;
  return Plan::succeeds;
}

}  // namespace

MessageKey key_of(const std::string& id) { return {"crash", id}; }

Plan plan_of(const Topic& topic) {
  for (const auto& [plan, name] : kTopics) {
    if (topic.str() == name) return plan;
  }
  return Plan::succeeds;
}

Topic topic_of(Plan plan) {
  for (const auto& [known, name] : kTopics) {
    if (known == plan) return name;
  }
  return "succeeds";
}

Message message_of(const std::string& id, TimePoint now) {
  constexpr Duration kScheduledIn{30};
  const std::uint64_t hash = hash_of(id);
  Message message{.key = key_of(id),
                  .topic = topic_of(plan_for(hash)),
                  .payload = id + std::string(hash % 2'000, 'x'),
                  .priority = static_cast<int>(hash / 256 % 3) - 1};
  if (hash / 1'024 % 8 == 0) message.due_at = now + kScheduledIn;
  if (id.starts_with("ordered")) {
    message.partition_key = id.substr(0, id.rfind('-'));
    message.priority = 0;
  }
  return message;
}

void limit_deliveries(Store& store) {
  store.policies().update(QueueKind::inbox, "*", {.max_deliveries = kMaxDeliveries});
}

DispatcherOptions dispatcher_options(Duration lease) {
  DispatcherOptions options;
  options.batch_size = kBatchSize;
  options.lease = lease;
  options.poll_interval = Duration{20};
  options.max_poll_interval = Duration{100};
  options.reap_interval = Duration{100};
  options.retries =
      RetryPolicies({.backoff = FixedDelay{Duration{10}}, .max_attempts = kMaxAttempts});
  return options;
}

}  // namespace oncebox::workers
