#include <string>
#include <thread>

#include "cutting_proxy.hpp"
#include "oncebox/conformance/harness.hpp"
#include "oncebox/error.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

// Each step is a round trip or two.
constexpr int kModelRuns = 20;

/// A space is a schema. Every handle has its own connections, as another process would, and all of
/// them go through one proxy that can cut them.
class PostgresqlHarness final : public conformance::Harness {
 public:
  [[nodiscard]] std::shared_ptr<Store> open() override {
    Options options = space_.options();
    options.connection = proxy_.connection();
    options.max_payload_bytes = std::size_t{17} << 20;
    return std::make_shared<PostgresqlStore>(options, clock_);
  }
  [[nodiscard]] TimePoint now() const override { return clock_.now(); }
  void advance(Duration by) override { clock_.advance(by); }

  /// What can fail is the connection, before each statement and before the commit.
  [[nodiscard]] bool run_with_failure(int step, const std::function<void()>& call) override {
    proxy_.cut_before(step);
    try {
      call();
    } catch (const Error& error) {
      if (!proxy_.disarm() || !error.retryable()) throw;
      wait_for_rollback();
      return true;
    }
    if (proxy_.disarm()) throw std::logic_error("the call got through without its connection");
    return false;
  }

 private:
  // The server takes a moment to notice that a connection was cut; until then its locks are there.
  void wait_for_rollback() {
    const std::string locks =
        "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation "
        "WHERE c.relnamespace = '{schema}'::regnamespace AND l.pid <> pg_backend_pid()";
    while (space_.number(locks) > 0) std::this_thread::yield();
  }

  TestSpace space_;
  CuttingProxy proxy_{testing::shared_postgresql_url()};
  testing::FakeClock clock_;
};

}  // namespace
}  // namespace oncebox::postgresql

std::vector<oncebox::conformance::StoreUnderTest> oncebox::conformance::stores_under_test() {
  return {{.name = "postgresql",
           .make_harness = [] { return std::make_unique<postgresql::PostgresqlHarness>(); },
           .model_runs = postgresql::kModelRuns}};
}
