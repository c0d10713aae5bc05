#include "oncebox/server/metrics_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "expect_error.hpp"
#include "http_fixture.hpp"
#include "oncebox/prometheus/prometheus_metrics.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MetricsEndpointTest : public ::testing::Test {
 protected:
  static RawResponse get(const MetricsEndpoint& endpoint, const std::string& path) {
    return RawClient(endpoint.port()).ask(get_text(path));
  }

  SystemClock clock_;
  KeepingLogger logger_;
};

TEST_F(MetricsEndpointTest, AnswersMetricsAndNothingElse) {
  RecordProperty("requirement", "MSG-09");
  PrometheusMetrics metrics;
  metrics.on_dispatcher("shop", {.running = 3});
  const MetricsEndpoint endpoint({.port = 0}, [&] { return metrics.expose(); },
                                 {.logger = logger_, .clock = clock_});
  const RawResponse answer = get(endpoint, "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("Content-Type"), PrometheusMetrics::kContentType);
  EXPECT_THAT(answer.body,
              HasSubstr(R"(oncebox_dispatcher_messages{dispatcher="shop",state="running"} 3)"));
  EXPECT_EQ(get(endpoint, "/v1/messages").status, 404);
}

TEST_F(MetricsEndpointTest, AFailureIsInTheLogAlone) {
  const auto fail = []() -> std::string { throw std::runtime_error("a secret detail"); };
  const MetricsEndpoint endpoint({.port = 0}, fail, {.logger = logger_, .clock = clock_});
  const RawResponse answer = get(endpoint, "/metrics");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, Not(HasSubstr("a secret detail")));
}

TEST_F(MetricsEndpointTest, ListensBeyondLoopbackOnlyWhenItIsTold) {
  const auto nothing = [] { return std::string(); };
  expect_error(ErrorCode::invalid_argument, [&] {
    const MetricsEndpoint endpoint({.host = "0.0.0.0", .port = 0}, nothing,
                                   {.logger = logger_, .clock = clock_});
  });
  const MetricsEndpoint allowed({.host = "0.0.0.0", .port = 0, .allow_anonymous_remote = true},
                                nothing, {.logger = logger_, .clock = clock_});
  EXPECT_EQ(get(allowed, "/metrics").status, 200);
}

}  // namespace
}  // namespace oncebox::server
