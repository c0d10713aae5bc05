#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "oncebox/idempotency_store.hpp"

namespace oncebox::conformance {

/// One key as the model knows it.
struct NaiveKey {
  KeyRecord record;
  /// Of the last acquisition, also when it has ended; of the completion, when the key was never
  /// begun. A completion without a lease id leaves none.
  std::optional<LeaseId> lease_id;
};

/// The idempotency keys written as plainly as possible: one vector, linear scans. Without a clock,
/// as `NaiveQueue`. The ids of leases are the store's to choose, so an acquisition leaves its id
/// open and the caller fills in what the store answered by `adopt_lease`.
class NaiveKeys {
 public:
  std::vector<BeginOutcome> begin(std::span<const BeginRequest> requests, TimePoint now);
  CompleteOutcome complete(const CompleteRequest& request, TimePoint now);
  FailOutcome fail(const FailRequest& request, TimePoint now);
  ReleaseOutcome release(const ReleaseRequest& request, TimePoint now);
  KeyExtendOutcome extend(const KeyExtension& extension, TimePoint now);
  [[nodiscard]] std::optional<KeyRecord> find(const IdempotencyKey& key, TimePoint now) const;
  /// Without a limit: everything that is past its retention.
  std::size_t cleanup(TimePoint now);

  void adopt_lease(const IdempotencyKey& key, const LeaseId& lease_id);

 private:
  BeginOutcome begin_one(const BeginRequest& request, TimePoint now);
  /// Null when the key is unknown, which it also is when its retention is over.
  [[nodiscard]] NaiveKey* known(const IdempotencyKey& key, TimePoint now);
  /// What is left of a forgotten key goes.
  NaiveKey& create(const IdempotencyKey& key, TimePoint now);

  std::vector<NaiveKey> keys_;
};

}  // namespace oncebox::conformance
