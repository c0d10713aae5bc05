#include "oncebox/memory/memory_store.hpp"

#include "memory_audit.hpp"
#include "memory_endpoints.hpp"
#include "memory_keys.hpp"
#include "memory_policies.hpp"
#include "memory_queue.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::memory {

namespace {

const Options& validated(const Options& options) {
  require_in_range("kept_attempts", options.kept_attempts, 1, limits::kMaxKeptAttempts);
  return options;
}

}  // namespace

struct MemoryStore::Impl {
  Impl(const Clock& clock, const Options& store_options)
      : options(store_options),
        inbox(QueueKind::inbox, clock, store_options, handlers),
        outbox(QueueKind::outbox, clock, store_options, handlers),
        deliveries(QueueKind::deliveries, clock, store_options, handlers),
        keys(clock, store_options, handlers),
        policies(inbox, outbox, deliveries),
        audit(clock, store_options.max_audit_entries) {
    for (MemoryQueue* const queue : {&inbox, &outbox, &deliveries}) queue->meet(queues);
  }

  const Options options;
  HandlerThreads handlers;
  MemoryQueue inbox;
  MemoryQueue outbox;
  MemoryQueue deliveries;
  const MemoryQueues queues{inbox, outbox, deliveries};
  MemoryKeys keys;
  MemoryPolicies policies;
  MemoryEndpoints endpoints;
  MemoryAudit audit;
};

MemoryStore::MemoryStore(const Clock& clock, const Options& options)
    : impl_(std::make_unique<Impl>(clock, validated(options))) {}

MemoryStore::MemoryStore(const Options& options) : MemoryStore(SystemClock::shared(), options) {}

MemoryStore::~MemoryStore() = default;

QueueStore& MemoryStore::inbox() { return impl_->inbox; }
QueueStore& MemoryStore::outbox() { return impl_->outbox; }
QueueStore& MemoryStore::deliveries() { return impl_->deliveries; }
IdempotencyStore& MemoryStore::keys() { return impl_->keys; }
QueueOperator& MemoryStore::inbox_operator() { return impl_->inbox; }
QueueOperator& MemoryStore::outbox_operator() { return impl_->outbox; }
QueueOperator& MemoryStore::deliveries_operator() { return impl_->deliveries; }
PolicyStore& MemoryStore::policies() { return impl_->policies; }
EndpointStore& MemoryStore::endpoints() { return impl_->endpoints; }
AuditTrail& MemoryStore::audit() { return impl_->audit; }

Capabilities MemoryStore::capabilities() const {
  return {.joins_caller_transaction = true,
          .notifies = true,
          .max_payload_bytes = impl_->options.max_payload_bytes};
}

MigrationResult MemoryStore::migrate() { return {}; }

Health MemoryStore::health() noexcept {
  for (const MemoryQueue* queue : {&impl_->inbox, &impl_->outbox}) {
    Health health = queue->clock_health();
    if (health.status != HealthStatus::healthy) return health;
  }
  return impl_->deliveries.clock_health();
}

}  // namespace oncebox::memory
