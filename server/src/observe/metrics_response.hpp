#pragma once

#include <string>
#include <utility>

#include "http/http_message.hpp"
#include "oncebox/prometheus/prometheus_metrics.hpp"

namespace oncebox::server {

/// The answer to Prometheus.
[[nodiscard]] inline Response metrics_response(std::string text) {
  Response response;
  response.content_type = PrometheusMetrics::kContentType;
  response.body = std::move(text);
  return response;
}

}  // namespace oncebox::server
