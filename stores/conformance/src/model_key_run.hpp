#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model_key_operations.hpp"
#include "naive_keys.hpp"
#include "oncebox/conformance/harness.hpp"

namespace oncebox::conformance {

/// Does the same operations with a store and with the naive model, and throws `Disagreement` where
/// they differ. What a store may choose is taken out of the comparison: the id of a lease only has
/// to be new, and a store that forgets keys by itself may have less to clean up.
class KeyRun {
 public:
  explicit KeyRun(Harness& harness);

  void apply(const KeyStep& step);

  /// Compares everything that can be seen of the keys.
  void compare_states();

 private:
  struct Acquisition {
    IdempotencyKey key;
    LeaseId lease_id;
  };

  /// One operation on its way: which handle, and when.
  struct Call {
    std::size_t handle = 0;
    IdempotencyStore& store;
    TimePoint now;
  };

  [[nodiscard]] Call call_on(std::size_t handle);
  [[nodiscard]] Acquisition acquisition(const LeaseRef& ref) const;
  [[nodiscard]] CompleteRequest request_of(const CompleteDraft& draft) const;

  void run(const Call& call, const BeginKeys& step);
  void run(const Call& call, const CompleteKeys& step);
  void run(const Call& call, const FailKeys& step);
  void run(const Call& call, const ReleaseKeys& step);
  void run(const Call& call, const ExtendKeys& step);
  void run(const Call& call, const FindKeys& step);
  void run(const Call& call, const IsProcessed& step);
  void run(const Call& call, const MarkProcessed& step);
  void run(const Call& call, const CleanupKeys& step);
  void run(const Call& call, const AdvanceKeyTime& step);
  void run(const Call& call, const ReopenKeys& step);

  Harness& harness_;
  std::array<std::shared_ptr<Store>, 2> handles_;
  NaiveKeys model_;
  std::vector<Acquisition> acquisitions_;  // in the order in which they were made
};

/// Runs a whole sequence in a fresh space. Throws `Disagreement`, with the step in its text, also
/// when the store throws.
void run_key_sequence(Harness& harness, const KeySequence& sequence);

}  // namespace oncebox::conformance
