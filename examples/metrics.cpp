// A worker with metrics for Prometheus: what it handled, retried and buried, and what the text is
// that Prometheus gets.

#include <chrono>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/prometheus/prometheus_metrics.hpp"

namespace {

using namespace oncebox;

/// The lines that a reader of this example can compare: no times.
void print_counters(const std::string& exposed) {
  std::istringstream lines(exposed);
  for (std::string line; std::getline(lines, line);) {
    for (const char* name : {"oncebox_messages_enqueued_total{", "oncebox_messages_retried_total{",
                             "oncebox_messages_dead_total{cause=\"failed\"",
                             "oncebox_handler_duration_seconds_count{"}) {
      if (line.starts_with(name)) std::cout << line << '\n';
    }
  }
}

}  // namespace

int main() {
  memory::MemoryStore store;
  PrometheusMetrics metrics;
  Observer& observer = metrics.observer({"shop"});

  Inbox inbox(store, {}, {.observer = observer});
  for (const char* id : {"good", "later", "never"}) {
    inbox.enqueue({.key = {"web", id}, .topic = "order.created", .payload = "{}"});
  }

  Handlers handlers;
  handlers.on("order.created", [](const ClaimedMessage& claimed, HandlerContext&) {
    const std::string& id = claimed.message.key.message_id.str();
    if (id == "later") throw RetryAfter(std::chrono::hours{1}, "the warehouse is closed");
    if (id == "never") throw PermanentFailure("no such customer");
  });
  Dispatcher dispatcher(store.inbox(), handlers, {}, {.observer = observer});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) return 1;
  dispatcher.stop();

  // Whenever Prometheus asks:
  metrics.on_dispatcher("shop", dispatcher.stats());
  print_counters(metrics.expose());
}
