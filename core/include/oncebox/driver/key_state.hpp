#pragma once

#include <optional>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/idempotency_store.hpp"

/// What happens to an idempotency key in each situation, as plain functions on its state, for the
/// stores that read a row, decide, and write it back. Nothing here looks at a clock. What only
/// decides changes nothing; what changes a state neither throws nor allocates, so that a store can
/// do everything that may fail before it begins to change: texts are given ready to keep (see
/// `error_text`).
namespace oncebox {

/// Everything about a key that its life changes, apart from its result: that may be large, exists
/// only while the key is processed, and most calls do without it.
struct KeyState {
  KeyStatus status = KeyStatus::in_progress;
  int attempts = 0;
  TimePoint first_seen_at{};
  TimePoint last_seen_at{};
  std::string owner = {};
  /// Of the last acquisition or completion. Kept when the work has ended: it tells a call that is
  /// repeated from one that comes too late.
  std::optional<LeaseId> lease_id = {};
  std::optional<TimePoint> lease_until = {};  ///< while in progress
  TimePoint keep_until{};
  std::optional<std::string> error = {};  ///< while failed

  /// Such a key is unknown, whether or not it was removed yet.
  [[nodiscard]] bool forgotten_at(TimePoint now) const noexcept { return keep_until <= now; }
  /// Whether the work goes on under this lease. It may have lapsed.
  [[nodiscard]] bool held_under(const LeaseId& id) const noexcept {
    return status == KeyStatus::in_progress && lease_id == id;
  }
};

/// A key that was unknown until now. It is to be acquired or processed at once: as it is, it would
/// be forgotten again.
[[nodiscard]] KeyState new_key_state(TimePoint now) noexcept;

// Decisions -------------------------------------------------------------------------------------
// `known` is null when the key is unknown or forgotten.

/// `acquired` when the key is to be acquired; anything else changes only last_seen.
[[nodiscard]] BeginStatus begin_as_found(const KeyState* known, FailedKeyPolicy on_failed,
                                         TimePoint now) noexcept;

/// The answer when nothing is to change; absent when the key, unknown or not, is to be processed.
[[nodiscard]] std::optional<CompleteOutcome> complete_as_found(
    const KeyState* known, const std::optional<LeaseId>& lease_id) noexcept;

/// The answer when nothing is to change; absent when the key is to be marked as failed.
[[nodiscard]] std::optional<FailOutcome> fail_as_found(const KeyState* known,
                                                       const LeaseId& lease_id) noexcept;

/// The answer when nothing is to change; absent when the key is to be given back.
[[nodiscard]] std::optional<ReleaseOutcome> release_as_found(const KeyState* known,
                                                             const LeaseId& lease_id) noexcept;

/// The end that the lease is to have; absent when it was lost, and nothing is to change.
[[nodiscard]] KeyExtendOutcome extend_as_found(const KeyState* known, const KeyExtension& extension,
                                               TimePoint now) noexcept;

// Changes ---------------------------------------------------------------------------------------

/// For how long a key is kept if so much was asked for, or nothing.
[[nodiscard]] Duration kept_for(const std::optional<Duration>& retention) noexcept;

/// Gives the key to somebody; `owner` is the request's.
void hand_out(KeyState& state, const BeginRequest& request, std::string owner,
              const LeaseId& lease_id, TimePoint now) noexcept;

/// The request's result is to be stored with it.
void set_processed(KeyState& state, const CompleteRequest& request, TimePoint now) noexcept;

/// `error` is the request's `error_text`.
void set_failed(KeyState& state, std::string error) noexcept;

void set_released(KeyState& state) noexcept;

/// `lease_until` is what `extend_as_found` answered.
void prolong(KeyState& state, TimePoint lease_until) noexcept;

// Texts and answers -----------------------------------------------------------------------------

/// What is kept of an error text: cut to its limit, valid UTF-8.
[[nodiscard]] std::string error_text(const FailRequest& request);

/// What `begin` answers about a key that it acquired or left as it was, without the result of a
/// processed one.
[[nodiscard]] BeginOutcome begin_outcome(BeginStatus status, const KeyState& state);

[[nodiscard]] KeyRecord to_record(IdempotencyKey key, KeyState state,
                                  std::optional<std::string> result);

}  // namespace oncebox
