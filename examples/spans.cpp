// Spans without a collector: a tracer of one's own that measures how long handlers take, a span of
// one's own below that of a handler, and a test that looks at the spans of a program.

#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/histogram.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/span_record.hpp"
#include "oncebox/tracing.hpp"

namespace {

using namespace oncebox;

/// How long handlers and what they call take.
class Durations final : public Tracer {
 public:
  void on_span(const Span& span) noexcept override {
    if (span.operation != SpanOperation::handle) return;
    const std::chrono::nanoseconds took = span.ended_at - span.began_at;
    handlers_.record(static_cast<std::uint64_t>(took.count()));
  }
  [[nodiscard]] Distribution handlers() const { return handlers_.distribution(); }

 private:
  Histogram handlers_;
};

/// The program: its handler calls a warehouse, and says so in a span of its own.
void run(Tracer& tracer) {
  memory::MemoryStore store;
  Inbox inbox(store, {}, {.tracer = &tracer});
  for (const char* id : {"order-1", "order-2"}) {
    inbox.enqueue({.key = {"shop", id}, .topic = "order.paid"});
  }
  Handlers handlers;
  handlers.on("order.paid", [&](const ClaimedMessage& claimed, HandlerContext&) {
    const SteadyTime began = SystemClock::shared().steady();
    const std::optional<TraceContext> parent = TraceContext::of(claimed.message.headers);
    // … the call, with the header `traceparent: ` and this:
    const TraceContext call = tracer.begin(parent);
    tracer.on_span({.operation = SpanOperation::publish,
                    .target = "warehouse",
                    .context = call,
                    .parent = parent->span_id,
                    .began_at = began,
                    .ended_at = SystemClock::shared().steady()});
    if (claimed.message.key.message_id == "order-2") throw PermanentFailure("out of stock");
  });
  Dispatcher dispatcher(store.inbox(), handlers, {.workers = 1}, {.tracer = &tracer});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) {
    throw std::runtime_error("too slow");
  }
}

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
  std::cout << what << '\n';
}

void test_the_spans() {
  testing::SpanRecord record;
  run(record);
  const auto handled = record.spans_of(SpanOperation::handle);
  const auto called = record.spans_of(SpanOperation::publish);
  expect(handled.size() == 2 && handled.at(0).target == "order.paid", "both orders are handled");
  expect(called.at(0).parent == handled.at(0).context.span_id, "the call is below its handler");
  expect(called.at(0).context.trace_id != called.at(1).context.trace_id,
         "each order has a trace of its own");
  expect(handled.at(0).error.empty() && !handled.at(1).error.empty(), "the second one has failed");
}

}  // namespace

int main() {
  test_the_spans();

  Durations durations;
  run(durations);
  const Distribution took = durations.handlers();
  const bool all_quick = took.max < std::uint64_t{60'000'000'000};
  std::cout << took.count << " handlers"
            << (all_quick ? ", none took longer than a minute\n" : "\n");
}
