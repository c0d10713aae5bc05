#include <stdexcept>

#include "cutting_proxy.hpp"
#include "oncebox/conformance/harness.hpp"
#include "oncebox/error.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/log.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "test_space.hpp"

namespace oncebox::http {
namespace {

constexpr std::size_t kMaxPayloadBytes = std::size_t{17} << 20;
constexpr std::chrono::seconds kPatience{60};  // only a failing test waits as long

server::ServerOptions server_options() {
  server::ServerOptions options;
  options.listen.port = 0;
  options.auth.token_variable = "";
  options.limits.max_body_bytes = std::size_t{256} << 20;
  options.limits.memory_bytes = 16 * options.limits.max_body_bytes;
  // What it does by itself would come between the steps of a test.
  options.retention.interval = std::chrono::days{1};
  options.retention.reap_interval = std::chrono::days{1};
  options.access_log = server::AccessLog::off;
  options.io_threads = 1;
  options.call_threads = 4;
  options.publish.private_over_http = true;
  return options;
}

/// A service of its own over a store, and a proxy before it that can cut requests. Every handle has
/// its own connections, as another process would.
class HttpHarness : public conformance::Harness {
 public:
  [[nodiscard]] std::shared_ptr<Store> open() override {
    if (!proxy_) start();
    return std::make_shared<HttpStore>(Options{.url = proxy_->url(),
                                               .connect_timeout = kPatience,
                                               .call_timeout = kPatience,
                                               .max_retries = 0});
  }
  [[nodiscard]] TimePoint now() const override { return clock_.now(); }
  void advance(Duration by) override { clock_.advance(by); }

  /// The service has no tokens.
  [[nodiscard]] std::string actor_named(std::string /*said*/) const override { return "anonymous"; }

  /// The service writes it by itself.
  [[nodiscard]] AuditTrail& trail_behind(Store& /*store*/) override { return store().audit(); }

  /// What can fail is the way of the request to the service.
  [[nodiscard]] bool run_with_failure(int step, const std::function<void()>& call) override {
    proxy_->cut_at(step);
    try {
      call();
    } catch (const Error& error) {
      if (!proxy_->disarm() || !error.retryable()) throw;
      return true;
    }
    if (proxy_->disarm()) throw std::logic_error("the call got through without its connection");
    return false;
  }

 protected:
  [[nodiscard]] const Clock& clock() const { return clock_; }

 private:
  [[nodiscard]] virtual Store& store() = 0;

  void start() {
    server_ = std::make_unique<server::Server>(
        server_options(), std::vector<server::NamedStore>{{.name = "main", .store = store()}},
        Surroundings{.logger = logger_, .clock = clock_});
    server_->start();
    proxy_ = std::make_unique<CuttingProxy>(server_->port());
  }

  testing::FakeClock clock_;
  NullLogger logger_;

 protected:
  /// To be called by the destructor of whoever has the store: both use it.
  void stop() {
    proxy_.reset();
    server_.reset();
  }

 private:
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<CuttingProxy> proxy_;
};

class OverMemory final : public HttpHarness {
 public:
  ~OverMemory() override { stop(); }

 private:
  [[nodiscard]] Store& store() override { return store_; }

  memory::MemoryStore store_{clock(), {.max_payload_bytes = kMaxPayloadBytes}};
};

class OverSqlite final : public HttpHarness {
 public:
  ~OverSqlite() override { stop(); }

 private:
  [[nodiscard]] Store& store() override { return store_; }

  testing::TemporaryFolder folder_;
  sqlite::SqliteStore store_{
      {.path = folder_.file("oncebox.db"), .readers = 2, .max_payload_bytes = kMaxPayloadBytes},
      clock()};
};

class OverPostgresql final : public HttpHarness {
 public:
  ~OverPostgresql() override { stop(); }

 private:
  [[nodiscard]] Store& store() override { return store_; }
  [[nodiscard]] postgresql::Options options() const {
    postgresql::Options options = space_.options();
    options.max_payload_bytes = kMaxPayloadBytes;
    return options;
  }

  postgresql::TestSpace space_{"http"};
  postgresql::PostgresqlStore store_{options(), clock()};
};

template <class Harness>
conformance::StoreUnderTest over(const std::string& name, int model_runs) {
  return {.name = "http" + name,
          .make_harness = [] { return std::make_unique<Harness>(); },
          .model_runs = model_runs};
}

}  // namespace
}  // namespace oncebox::http

std::vector<oncebox::conformance::StoreUnderTest> oncebox::conformance::stores_under_test() {
  // Each step is a request, and the stores behind have been through the random tests themselves.
  return {http::over<http::OverMemory>("memory", 20), http::over<http::OverSqlite>("sqlite", 10),
          http::over<http::OverPostgresql>("postgresql", 3)};
}
