// A user's program: it knows the installed package and nothing of the source tree.
#include <cstdlib>
#include <iostream>
#include <string>

#include "oncebox/open_store.hpp"
#ifdef CONSUMER_HAS_PROMETHEUS
#include "oncebox/prometheus/prometheus_metrics.hpp"
#endif

int main() {
  const auto store = oncebox::open_store("memory:");
  const oncebox::Message message{
      .key = {.source = "stripe", .message_id = "evt_1"},
      .topic = "payment.received",
      .payload = R"({"amount": 42})",
  };
  const auto first = store->inbox().enqueue(message);
  const auto second = store->inbox().enqueue(message);
  std::cout << to_string(first.status) << ", then " << to_string(second.status) << '\n';

  const bool deduplicated = first.status == oncebox::EnqueueStatus::accepted &&
                            second.status == oncebox::EnqueueStatus::duplicate;
#ifdef CONSUMER_HAS_PROMETHEUS
  oncebox::PrometheusMetrics metrics;
  metrics.observer({"memory"}).on_enqueue(message, first);
  if (metrics.expose().find("oncebox_messages_enqueued_total{") == std::string::npos) {
    return EXIT_FAILURE;
  }
#endif
  return deduplicated ? EXIT_SUCCESS : EXIT_FAILURE;
}
