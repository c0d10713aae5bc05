#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "oncebox/audit_trail.hpp"
#include "oncebox/endpoint_store.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/topic_policy.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {

/// Facts about a backend. Semantics are never among them: deduplication, atomic claims, fencing and
/// ordering hold on every store.
struct Capabilities {
  bool durable = false;                   ///< what was accepted outlives the process
  bool shared_between_processes = false;  ///< several processes may open it at once
  bool joins_caller_transaction = false;  ///< can enqueue inside the caller's own transaction
  bool notifies = false;                  ///< tells waiting workers of new messages
  bool native_ttl = false;                ///< removes forgotten keys by itself
  std::size_t max_payload_bytes = 0;
};

enum class HealthStatus { healthy, degraded, unavailable };

[[nodiscard]] std::string_view to_string(HealthStatus status) noexcept;

struct Health {
  HealthStatus status = HealthStatus::healthy;
  std::string detail = {};  ///< why, when it is not healthy; never a secret
};

/// The versions of a store's schema before and after `migrate`.
struct MigrationResult {
  int from_version = 0;
  int to_version = 0;
};

/// One backend with everything it offers. What the calls return lives as long as the store. Every
/// call is safe from any thread; destroying a store while a call runs is not.
class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  [[nodiscard]] virtual QueueStore& inbox() = 0;
  [[nodiscard]] virtual QueueStore& outbox() = 0;
  /// What is under way to endpoints; see `QueueKind::deliveries`.
  [[nodiscard]] virtual QueueStore& deliveries() = 0;
  [[nodiscard]] virtual IdempotencyStore& keys() = 0;

  [[nodiscard]] virtual QueueOperator& inbox_operator() = 0;
  [[nodiscard]] virtual QueueOperator& outbox_operator() = 0;
  [[nodiscard]] virtual QueueOperator& deliveries_operator() = 0;

  [[nodiscard]] QueueStore& queue(QueueKind kind);
  [[nodiscard]] QueueOperator& queue_operator(QueueKind kind);

  /// The rules for topics, of every queue.
  [[nodiscard]] virtual PolicyStore& policies() = 0;

  /// Where the messages of the outbox go.
  [[nodiscard]] virtual EndpointStore& endpoints() = 0;

  /// Who changed what by hand. The store's own calls write nothing there: see `audited`.
  [[nodiscard]] virtual AuditTrail& audit() = 0;

  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  /// Brings the schema to the version of this library, from any earlier one or from nothing.
  /// Idempotent, and safe when several processes do it at once.
  virtual MigrationResult migrate() = 0;

  /// Asks the backend how it is. Does not throw: a backend that cannot be reached is `unavailable`.
  [[nodiscard]] virtual Health health() noexcept = 0;

 protected:
  Store() = default;
};

}  // namespace oncebox
