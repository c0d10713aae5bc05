#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <variant>
#include <vector>

#include "model_vocabulary.hpp"
#include "oncebox/idempotency_store.hpp"

/// The operations of the random test of the idempotency keys; in the manner of
/// model_queue_operations.hpp.
namespace oncebox::conformance {

struct BeginDraft {
  std::size_t key = 0;
  std::size_t owner = 0;
  Duration lease{1000};
  Duration retention{1000};
  FailedKeyPolicy on_failed = FailedKeyPolicy::retry;
};

/// The lease that was acquired `back` acquisitions before the latest, used with the key that it is
/// for or with another one. Before the first acquisition: an id that nobody was given.
struct LeaseRef {
  std::size_t back = 0;
  std::optional<std::size_t> other_key;
};

struct CompleteDraft {
  LeaseRef lease;
  std::optional<std::size_t> unconditional;  ///< this key, and no lease
  std::optional<std::size_t> result;         ///< a place in `vocabulary::payload`
  Duration retention{1000};
};

struct FailDraft {
  LeaseRef lease;
  std::size_t error = 0;
};

struct KeyExtensionDraft {
  LeaseRef lease;
  Duration duration{1000};
};

struct BeginKeys {
  std::vector<BeginDraft> requests;
};

struct CompleteKeys {
  std::vector<CompleteDraft> requests;
};

struct FailKeys {
  std::vector<FailDraft> requests;
};

struct ReleaseKeys {
  std::vector<LeaseRef> leases;
};

struct ExtendKeys {
  std::vector<KeyExtensionDraft> extensions;
};

struct FindKeys {
  std::vector<std::size_t> keys;
};

/// The two calls of KIN-01.
struct IsProcessed {
  std::size_t key = 0;
};

struct MarkProcessed {
  std::size_t key = 0;
};

/// Calls `cleanup` until nothing is left.
struct CleanupKeys {
  std::size_t limit = 1;
};

struct AdvanceKeyTime {
  Duration by{1};
};

struct ReopenKeys {};

using KeyOperation =
    std::variant<BeginKeys, CompleteKeys, FailKeys, ReleaseKeys, ExtendKeys, FindKeys, IsProcessed,
                 MarkProcessed, CleanupKeys, AdvanceKeyTime, ReopenKeys>;

struct KeyStep {
  KeyOperation operation;
  std::size_t handle = 0;  ///< which of the two handles on the space makes the call
};

struct KeySequence {
  std::vector<KeyStep> steps;
};

std::ostream& operator<<(std::ostream& out, const KeyStep& step);
std::ostream& operator<<(std::ostream& out, const KeySequence& sequence);

}  // namespace oncebox::conformance
