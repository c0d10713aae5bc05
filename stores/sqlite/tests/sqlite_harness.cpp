#include "faulty_disk.hpp"
#include "oncebox/conformance/harness.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "peer_process.hpp"

namespace oncebox::sqlite {
namespace {

/// A space is a file in a folder of its own. Every handle has its own connections and threads, as
/// another process would.
class SqliteHarness : public conformance::Harness {
 public:
  explicit SqliteHarness(std::size_t keys_per_segment) : keys_per_segment_(keys_per_segment) {}

  [[nodiscard]] std::shared_ptr<Store> open() override {
    return std::make_shared<SqliteStore>(Options{.path = path(),
                                                 .busy_timeout = std::chrono::seconds{60},
                                                 .readers = 1,
                                                 .keys_per_segment = keys_per_segment_,
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

 protected:
  [[nodiscard]] std::string path() const { return folder_.file("oncebox.db"); }

 private:
  const std::size_t keys_per_segment_;
  testing::TemporaryFolder folder_;
  testing::FakeClock clock_;
};

// A segment is full after a few keys, so that tests with a handful of messages have several.
constexpr std::size_t kFewKeys = 4;

/// The same while another process writes to the file all the time.
class SharedSqliteHarness final : public SqliteHarness {
 public:
  SharedSqliteHarness() : SqliteHarness(Options{}.keys_per_segment) {}

 private:
  PeerProcess peer_{std::string(ONCEBOX_SQLITE_PEER) + " " + path()};
};

}  // namespace
}  // namespace oncebox::sqlite

std::vector<oncebox::conformance::StoreUnderTest> oncebox::conformance::stores_under_test() {
  std::vector<StoreUnderTest> stores{
      {.name = "sqlite",
       .make_harness = [] { return std::make_unique<sqlite::SqliteHarness>(sqlite::kFewKeys); }}};
#ifndef ONCEBOX_SANITIZED
  // A sanitizer sees nothing of the other process, and everything takes it several times as long.
  stores.push_back({.name = "sqliteBesideAnotherProcess", .make_harness = [] {
                      return std::make_unique<sqlite::SharedSqliteHarness>();
                    }});
#endif
  return stores;
}
