#include <new>

#include "failing_allocations.hpp"
#include "oncebox/conformance/harness.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox::memory {
namespace {

/// The space of a memory store is the store itself: every handle is the same one.
class MemoryHarness final : public conformance::Harness {
 public:
  [[nodiscard]] std::shared_ptr<Store> open() override { return store_; }
  [[nodiscard]] TimePoint now() const override { return clock_.now(); }
  void advance(Duration by) override { clock_.advance(by); }

  /// What can fail inside a memory store is an allocation.
  [[nodiscard]] bool run_with_failure(int step, const std::function<void()>& call) override {
    const FailingAllocation failure(step);
    try {
      call();
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  }

 private:
  testing::FakeClock clock_;
  std::shared_ptr<MemoryStore> store_ =
      std::make_shared<MemoryStore>(clock_, Options{.max_payload_bytes = std::size_t{17} << 20});
};

}  // namespace
}  // namespace oncebox::memory

std::vector<oncebox::conformance::StoreUnderTest> oncebox::conformance::stores_under_test() {
  return {
      {.name = "memory", .make_harness = [] { return std::make_unique<memory::MemoryHarness>(); }}};
}
