#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/store.hpp"

namespace oncebox::conformance {

/// What a store gives the suite: a fresh, empty space that no other test sees, and time that the
/// test moves. One harness serves one test.
class Harness {
 public:
  virtual ~Harness() = default;

  /// Opens the space. A second call gives a second handle on the same space, as another process
  /// would have; a handle may be destroyed and opened again, and then nothing that was accepted is
  /// lost.
  [[nodiscard]] virtual std::shared_ptr<Store> open() = 0;

  /// The time that decides in this space: the injected clock's, or what the harness passes to the
  /// database in place of its own.
  [[nodiscard]] virtual TimePoint now() const = 0;
  virtual void advance(Duration by) = 0;

  /// The name under which the store keeps what somebody does who says that this is his name.
  [[nodiscard]] virtual std::string actor_named(std::string said) const { return said; }

  /// Where what `store.audit()` shows is written: elsewhere, when the store does not let others
  /// write it.
  [[nodiscard]] virtual AuditTrail& trail_behind(Store& store) { return store.audit(); }

  /// Runs `call`, which makes one call of the store, so that it fails at its `step`-th internal
  /// step (an allocation, a statement, a write: whatever this backend can be made to fail at),
  /// counted from 0. True when the failure struck and `call` threw; false when it has fewer steps
  /// and got through.
  [[nodiscard]] virtual bool run_with_failure(int step, const std::function<void()>& call) = 0;
};

/// A store as the suite knows it.
struct StoreUnderTest {
  std::string name;  ///< letters and digits; part of the test names
  std::function<std::unique_ptr<Harness>()> make_harness;
  int model_runs = 200;  ///< sequences that the random model test tries
};

/// Defined once in each test program that links the suite: this is all that a store has to write to
/// be tested.
[[nodiscard]] std::vector<StoreUnderTest> stores_under_test();

}  // namespace oncebox::conformance
