#include "faulty_disk.hpp"
#include "oncebox/conformance/harness.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "temporary_folder.hpp"

namespace oncebox::sqlite {
namespace {

/// A space is a file in a folder of its own. Every handle has its own connections and threads, as
/// another process would.
class SqliteHarness final : public conformance::Harness {
 public:
  [[nodiscard]] std::shared_ptr<Store> open() override {
    return std::make_shared<SqliteStore>(Options{.path = folder_.file("oncebox.db"),
                                                 .readers = 1,
                                                 .max_payload_bytes = std::size_t{17} << 20,
                                                 .vfs = FaultyDisk::vfs()},
                                         clock_);
  }
  [[nodiscard]] TimePoint now() const override { return clock_.now(); }
  void advance(Duration by) override { clock_.advance(by); }

  /// What can fail is a write to the disk or its flush.
  [[nodiscard]] bool run_with_failure(int step, const std::function<void()>& call) override {
    const auto fault = step % 2 == 0 ? FaultyDisk::Fault::io_error : FaultyDisk::Fault::disk_full;
    const FaultyDisk disk(step, fault);
    try {
      call();
      return false;
    } catch (const Error& error) {
      if (!disk.struck() || !error.retryable()) throw;
      return true;
    }
  }

 private:
  TemporaryFolder folder_;
  testing::FakeClock clock_;
};

}  // namespace
}  // namespace oncebox::sqlite

std::vector<oncebox::conformance::StoreUnderTest> oncebox::conformance::stores_under_test() {
  return {
      {.name = "sqlite", .make_harness = [] { return std::make_unique<sqlite::SqliteHarness>(); }}};
}
