#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/idempotency_store.hpp"

/// The bodies of the calls about idempotency keys. Rules as in message_json.hpp.
namespace oncebox::wire {

// The inbox contract of /v1/inbox (KIN-03 to KIN-06): one key a call -----------------------------

/// `{key, owner?, leaseSeconds?}`; the lease is 1 to 300 seconds, 60 when it is left out.
[[nodiscard]] BeginRequest read_try_begin(std::string_view json, Duration retention);
/// `{status: Acquired|Processed|Busy, leaseId?, expiresAt?, leaseUntil?}`; the last two are the
/// same time: the contract calls it the one, every other answer about keys the other.
[[nodiscard]] std::string write_try_begin(const BeginOutcome& outcome);

/// `{key, leaseId?}`; with `require_lease` a call without one is an error.
enum class LeaseRule { optional, required };
[[nodiscard]] CompleteRequest read_mark_processed(std::string_view json, LeaseRule rule,
                                                  Duration retention);
/// `{status: Processed|LeaseLost}`
[[nodiscard]] std::string write_mark_processed(CompleteOutcome outcome);

/// `{key, leaseId}`
[[nodiscard]] ReleaseRequest read_release(std::string_view json);
/// `{status: Released|LeaseLost|Processed|Unknown}`
[[nodiscard]] std::string write_release(ReleaseOutcome outcome);

/// `{status: Unknown|InProgress|Released|Failed|Processed, attempts, firstSeen, lastSeen,
/// leaseUntil?}`
[[nodiscard]] std::string write_key_status(const std::optional<KeyRecord>& record);

// All that an IdempotencyStore can do, in batches: /v1/keys/… with {"items": […]} ----------------
// The same words as above, in `{"results": [{"status": …}, …]}`. Results of keys are bytes:
// `resultBase64`. `retention` holds for items without `retentionSeconds`.

[[nodiscard]] std::vector<BeginRequest> read_begins(std::string_view json, Duration retention);
[[nodiscard]] std::string write_begins(std::span<const BeginRequest> requests);
[[nodiscard]] std::string write_begun(std::span<const BeginOutcome> outcomes);
[[nodiscard]] std::vector<BeginOutcome> read_begun(std::string_view json);

[[nodiscard]] std::vector<CompleteRequest> read_completions(std::string_view json,
                                                            Duration retention);
[[nodiscard]] std::string write_completions(std::span<const CompleteRequest> requests);
[[nodiscard]] std::string write_completed(std::span<const CompleteOutcome> outcomes);
[[nodiscard]] std::vector<CompleteOutcome> read_completed(std::string_view json);

[[nodiscard]] std::vector<FailRequest> read_key_failures(std::string_view json);
[[nodiscard]] std::string write_key_failures(std::span<const FailRequest> requests);
[[nodiscard]] std::string write_keys_failed(std::span<const FailOutcome> outcomes);
[[nodiscard]] std::vector<FailOutcome> read_keys_failed(std::string_view json);

[[nodiscard]] std::vector<ReleaseRequest> read_key_releases(std::string_view json);
[[nodiscard]] std::string write_key_releases(std::span<const ReleaseRequest> requests);
[[nodiscard]] std::string write_keys_released(std::span<const ReleaseOutcome> outcomes);
[[nodiscard]] std::vector<ReleaseOutcome> read_keys_released(std::string_view json);

[[nodiscard]] std::vector<KeyExtension> read_key_extensions(std::string_view json);
[[nodiscard]] std::string write_key_extensions(std::span<const KeyExtension> extensions);
[[nodiscard]] std::string write_keys_extended(std::span<const KeyExtendOutcome> outcomes);
[[nodiscard]] std::vector<KeyExtendOutcome> read_keys_extended(std::string_view json);

/// `{"keys": ["a", "b"]}`
[[nodiscard]] std::vector<IdempotencyKey> read_key_names(std::string_view json);
[[nodiscard]] std::string write_key_names(std::span<const IdempotencyKey> keys);
/// A key that is not known has the status Unknown.
/// The records of the first keys of a call.
struct FoundKeys {
  std::vector<std::optional<KeyRecord>> records;
  bool truncated = false;  ///< there are more keys: the caller asks again for these
};
/// `{"results": […], "truncated"?: true}`
[[nodiscard]] std::string write_key_records(const FoundKeys& found);
[[nodiscard]] FoundKeys read_key_records(std::string_view json);

/// `{"limit": 1000}` → `{"count": 7}` (operator_json.hpp)
[[nodiscard]] std::size_t read_limit(std::string_view json);
[[nodiscard]] std::string write_limit(std::size_t limit);

}  // namespace oncebox::wire
