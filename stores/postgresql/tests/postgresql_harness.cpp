#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cutting_proxy.hpp"
#include "idle_spaces.hpp"
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
  PostgresqlHarness() : space_(idle_spaces().take()) {}
  ~PostgresqlHarness() override { idle_spaces().give_back(std::move(space_)); }
  PostgresqlHarness(const PostgresqlHarness&) = delete;
  PostgresqlHarness& operator=(const PostgresqlHarness&) = delete;

  [[nodiscard]] std::shared_ptr<Store> open() override {
    Options options = space_->options();
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
      const auto server_process = proxy_.disarm();
      if (!server_process || !error.retryable()) throw;
      wait_for_end(*server_process);
      return true;
    }
    if (proxy_.disarm()) throw std::logic_error("the call got through without its connection");
    return false;
  }

 private:
  // A process of the server first works on the statements that came before the cut, and then takes
  // a moment to notice it; that it holds no locks may mean that it has not begun yet. Until it has
  // ended, another call may find rows locked, and leave them out.
  void wait_for_end(int server_process) {
    const std::string alive =
        "SELECT count(*) FROM pg_stat_activity WHERE pid = " + std::to_string(server_process);
    while (space_->number(alive) > 0) std::this_thread::yield();
  }

  std::unique_ptr<TestSpace> space_;
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
