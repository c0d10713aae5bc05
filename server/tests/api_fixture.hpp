#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api.hpp"
#include "api/borrowed_stores.hpp"
#include "observe/metrics.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "test_exchange.hpp"

namespace oncebox::server {

/// A header field of a request.
struct TestField {
  std::string name;
  std::string value;
};

/// One call, as a client would make it.
struct TestCall {
  Method method = Method::post;
  std::string target;
  std::string body = {};
  std::vector<TestField> fields = {{"Content-Type", "application/json"}};
  std::string principal = "anonymous";
  TokenLimits limits = {};
  ScopeBits scopes = kEveryScope;
  std::string peer = "192.0.2.1";
  std::shared_ptr<ClientAddress> address = {};  ///< with the memory that the client may take
};

[[nodiscard]] TestCall get(std::string target);
[[nodiscard]] TestCall post(std::string target, std::string body);

[[nodiscard]] boost::json::value json_of(const Response& response);

/// The code of a problem; empty when it is none.
[[nodiscard]] std::string problem_code(const Response& response);
[[nodiscard]] std::string problem_detail(const Response& response);

/// Keeps log lines.
class LineLogger final : public Logger {
 public:
  [[nodiscard]] bool enabled(LogLevel level) const noexcept override {
    return level >= LogLevel::warning;
  }
  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept override;
  [[nodiscard]] bool wait_for(std::string_view beginning) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> lines_;
};

/// The API over one or more stores, without sockets.
class ApiUnderTest {
 public:
  /// The first store is the default one.
  ApiUnderTest(ServerOptions options, const std::vector<NamedStore>& stores, const Clock& clock);
  ApiUnderTest(const ServerOptions& options, StoreSet& stores, const Clock& clock);

  /// Makes a call, whose answer comes when it comes.
  std::shared_ptr<TestExchange> begin(const TestCall& call);
  /// Makes a call and waits for its answer. A body that is streamed comes in pieces of this size.
  Response call(const TestCall& call, std::size_t piece_bytes = 4'096);

  [[nodiscard]] Api& api() { return *api_; }
  [[nodiscard]] const Router& router() const { return router_; }
  [[nodiscard]] LineLogger& logger() { return logger_; }
  [[nodiscard]] Metrics& metrics() { return metrics_; }

  /// The server stops.
  void destroy() { api_.reset(); }

 private:
  LineLogger logger_;
  Metrics metrics_;
  Router router_;
  std::unique_ptr<StoreSet> own_stores_;
  std::unique_ptr<Api> api_;
};

/// Options under which nothing happens by itself while a test runs.
[[nodiscard]] ServerOptions quiet_options();

enum class StoreKind { memory, sqlite, postgresql };

// A program has local_store_kinds.cpp or postgresql_store_kinds.cpp, which say what these are.

[[nodiscard]] std::vector<StoreKind> store_kinds();

[[nodiscard]] std::unique_ptr<Store> make_store(StoreKind kind, const Clock& clock,
                                                const testing::TemporaryFolder& folder,
                                                const std::string& name = "test.db");

/// A test that runs over each kind of store, on a clock that stands still.
class ApiTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  explicit ApiTest(const ServerOptions& options = quiet_options());

  Response call(const TestCall& call) { return under_test_.call(call); }
  /// Enqueues a message with this id and topic through the API.
  void enqueue(const std::string& id, const std::string& topic = "order.created");
  /// Claims up to so many, and answers the parsed body.
  boost::json::value claim(std::size_t limit = 10);
  [[nodiscard]] MessageRecord record(const std::string& id);

  testing::FakeClock clock_;
  testing::TemporaryFolder folder_;
  std::unique_ptr<Store> store_ = make_store(GetParam(), clock_, folder_);
  std::unique_ptr<Store> second_ = make_store(GetParam(), clock_, folder_, "second.db");
  ApiUnderTest under_test_;
};

[[nodiscard]] std::string store_kind_name(const ::testing::TestParamInfo<StoreKind>& info);

#define ONCEBOX_OVER_EACH_STORE(suite) \
  INSTANTIATE_TEST_SUITE_P(Stores, suite, ::testing::ValuesIn(store_kinds()), store_kind_name)

}  // namespace oncebox::server
