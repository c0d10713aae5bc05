#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/names.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox {

enum class KeyStatus { in_progress, released, failed, processed };

[[nodiscard]] std::string_view to_string(KeyStatus status) noexcept;

/// Whether a key whose work failed can be begun again (PKT-05).
enum class FailedKeyPolicy { retry, suppress };

struct BeginRequest {
  IdempotencyKey key;
  std::string owner = {};  ///< a label for people; it gives no rights
  Duration lease = defaults::kKeyLease;
  /// Of a key that is never completed. Nothing: the store's own, see `IdempotencyStore`.
  std::optional<Duration> retention = {};
  FailedKeyPolicy on_failed = FailedKeyPolicy::retry;
};

enum class BeginStatus {
  acquired,   ///< the work is yours until the lease ends
  processed,  ///< it was done before; the outcome carries its result
  busy,       ///< somebody holds a live lease, perhaps the same owner
  failed,     ///< it failed before, and `FailedKeyPolicy::suppress` was asked for
};

[[nodiscard]] std::string_view to_string(BeginStatus status) noexcept;

struct BeginOutcome {
  BeginStatus status = BeginStatus::acquired;
  std::optional<LeaseId> lease_id = {};       ///< when acquired
  std::optional<TimePoint> lease_until = {};  ///< when acquired or busy
  int attempts = 0;                           ///< acquisitions so far, this one included
  std::optional<std::string> result = {};     ///< when processed, and a result was stored
  bool result_left_out = false;               ///< one is stored, but had no room: ask `find` for it
  std::optional<std::string> error = {};      ///< when failed
};

struct CompleteRequest {
  IdempotencyKey key;
  std::optional<LeaseId> lease_id = {};    ///< absent: unconditional
  std::optional<std::string> result = {};  ///< any bytes, at most `limits::kMaxResultBytes`
  std::optional<Duration> retention = {};  ///< nothing: the store's own
};

enum class CompleteOutcome { processed, lease_lost };

struct FailRequest {
  IdempotencyKey key;
  LeaseId lease_id;
  std::string error;
};

enum class FailOutcome { failed, lease_lost };

struct ReleaseRequest {
  IdempotencyKey key;
  LeaseId lease_id;
};

enum class ReleaseOutcome { released, lease_lost, processed, unknown };

struct KeyExtension {
  IdempotencyKey key;
  LeaseId lease_id;
  Duration lease = defaults::kKeyLease;  ///< counted from now; a lease is never shortened
};

/// The new end of the lease; nothing when the lease was lost.
struct KeyExtendOutcome {
  std::optional<TimePoint> lease_until = {};

  friend bool operator==(const KeyExtendOutcome&, const KeyExtendOutcome&) = default;
};

struct KeyRecord {
  IdempotencyKey key;
  KeyStatus status = KeyStatus::in_progress;
  int attempts = 0;
  TimePoint first_seen_at{};
  TimePoint last_seen_at{};
  std::string owner = {};                     ///< of the last acquisition
  std::optional<TimePoint> lease_until = {};  ///< while in progress; it may have lapsed
  TimePoint keep_until{};                     ///< when the key is forgotten
  std::optional<std::string> result = {};     ///< while processed
  std::optional<std::string> error = {};      ///< while failed

  friend bool operator==(const KeyRecord&, const KeyRecord&) = default;
};

/// Keys of operations that must take effect once: each is begun under a lease, then completed,
/// failed or released. A crash never blocks a key for longer than its lease.
///
/// Threads, atomicity, time and limits as for `QueueStore`. Leases are from 1 to 300 seconds;
/// anything outside its range throws `out_of_range`, a result above its limit `invalid_argument`,
/// before anything changes.
///
/// **Retention.** A key whose `keep_until` has come is unknown, whether or not it was removed yet.
/// Beginning a key keeps it for the retention given, at least until the lease ends; completing it
/// counts anew. A store's own retention is `defaults::kKeyRetention`; behind a server it is the
/// server's `retention.keys`.
class IdempotencyStore {
 public:
  virtual ~IdempotencyStore() = default;
  IdempotencyStore(const IdempotencyStore&) = delete;
  IdempotencyStore& operator=(const IdempotencyStore&) = delete;

  /// Acquires keys that are unknown, released, failed (unless suppressed), or whose lease has
  /// lapsed: a new lease id, attempts + 1. Otherwise only last_seen changes. Throws `overloaded`
  /// when the store's bounds are reached. The results that one call answers have together at most
  /// `limits::kMaxBegunResultBytes`; in the order of the requests, each that does not fit any more
  /// is left out. The first one always fits, so that of a single key is always there.
  std::vector<BeginOutcome> begin(std::span<const BeginRequest> requests,
                                  const CallOptions& call = {});
  BeginOutcome begin(const BeginRequest& request, const CallOptions& call = {});

  /// A look ahead of `begin`, without allocations on a store that can tell in place: what `begin`
  /// would answer about a key that it would not acquire, and last_seen changes as it would there.
  /// Nothing: ask `begin`, which alone decides. The text may be anything, also no valid key.
  [[nodiscard]] std::optional<BeginStatus> recognise(
      std::string_view key, FailedKeyPolicy on_failed = FailedKeyPolicy::retry) {
    return do_recognise(key, on_failed);
  }

  /// Marks keys as processed and stores their results. With a lease id only its holder may, also
  /// after the lease lapsed, until somebody else began the key; repeating the call is answered
  /// `processed` again. Without one the call is unconditional: it overrides a live lease, and
  /// leaves a key that is already processed as it is. An unknown key is created processed, with or
  /// without a lease id: the work was done.
  std::vector<CompleteOutcome> complete(std::span<const CompleteRequest> requests,
                                        const CallOptions& call = {});
  CompleteOutcome complete(const CompleteRequest& request, const CallOptions& call = {});

  /// Marks keys as failed and keeps the error text, cut to 2,048 bytes. Repeating it is answered
  /// `failed` again.
  std::vector<FailOutcome> fail(std::span<const FailRequest> requests,
                                const CallOptions& call = {});
  FailOutcome fail(const FailRequest& request, const CallOptions& call = {});

  /// Gives keys back without a verdict: the next begin acquires them. Repeating it is answered
  /// `released` again.
  std::vector<ReleaseOutcome> release(std::span<const ReleaseRequest> requests,
                                      const CallOptions& call = {});
  ReleaseOutcome release(const ReleaseRequest& request, const CallOptions& call = {});

  /// Prolongs leases, also lapsed ones, until somebody else began the key; a key is kept at least
  /// as long as its lease.
  std::vector<KeyExtendOutcome> extend(std::span<const KeyExtension> extensions,
                                       const CallOptions& call = {});
  KeyExtendOutcome extend(const KeyExtension& extension, const CallOptions& call = {});

  /// What is stored under each key, or nothing. Changes nothing.
  [[nodiscard]] std::vector<std::optional<KeyRecord>> find(std::span<const IdempotencyKey> keys,
                                                           const CallOptions& call = {});
  [[nodiscard]] std::optional<KeyRecord> find(const IdempotencyKey& key,
                                              const CallOptions& call = {});

  /// Removes up to `limit` keys that are past their retention, and tells how many.
  std::size_t cleanup(std::size_t limit, const CallOptions& call = {});

  /// The two calls of the smallest client contract (KIN-01).
  [[nodiscard]] bool is_processed(const IdempotencyKey& key, const CallOptions& call = {});
  void mark_processed(const IdempotencyKey& key, const CallOptions& call = {});

 protected:
  IdempotencyStore() = default;

 private:
  virtual std::vector<BeginOutcome> do_begin(std::span<const BeginRequest> requests) = 0;
  /// A store that has no quicker answer than `begin` leaves it as it is.
  virtual std::optional<BeginStatus> do_recognise(std::string_view /*key*/,
                                                  FailedKeyPolicy /*on_failed*/) {
    return std::nullopt;
  }
  virtual std::vector<CompleteOutcome> do_complete(std::span<const CompleteRequest> requests) = 0;
  virtual std::vector<FailOutcome> do_fail(std::span<const FailRequest> requests) = 0;
  virtual std::vector<ReleaseOutcome> do_release(std::span<const ReleaseRequest> requests) = 0;
  virtual std::vector<KeyExtendOutcome> do_extend(std::span<const KeyExtension> extensions) = 0;
  virtual std::vector<std::optional<KeyRecord>> do_find(std::span<const IdempotencyKey> keys) = 0;
  virtual std::size_t do_cleanup(std::size_t limit) = 0;
};

}  // namespace oncebox
