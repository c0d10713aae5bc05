#include "bench_dispatcher.hpp"

#include <algorithm>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "bench_messages.hpp"
#include "figure.hpp"
#include "oncebox/dispatch/dispatcher.hpp"

namespace oncebox::bench {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

}  // namespace

void enqueue_all(QueueStore& queue, std::size_t count, std::size_t first) {
  constexpr std::size_t kEnqueueBatch = 1'000;
  for (std::size_t done = 0; done < count; done += kEnqueueBatch) {
    queue.enqueue(make_messages(std::min(kEnqueueBatch, count - done), first + done));
  }
}

double drain_through_dispatcher(QueueStore& queue, std::size_t count, const Draining& draining) {
  Countdown handled(count);
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage&, HandlerContext&) { handled.count(); });
  Dispatcher dispatcher(queue, std::move(handlers),
                        {.workers = draining.workers, .batch_size = draining.batch_size});
  return measure([&] {
    dispatcher.start();
    handled.wait();
    if (!dispatcher.stop().complete()) throw std::runtime_error("the dispatcher did not stop");
    return count;
  });
}

Quantiles quantiles_of(Times times) {
  std::sort(times.begin(), times.end());
  return {.p50_us = times.at(times.size() / 2), .p99_us = times.at(times.size() * 99 / 100)};
}

Times measure_latency(QueueStore& producer, QueueStore& consumer, std::size_t samples,
                      std::chrono::milliseconds pause) {
  return measure_latency([&](const Message& message) { producer.enqueue(message); }, consumer,
                         samples, pause);
}

Times measure_latency(const std::function<void(const Message& message)>& enqueue,
                      QueueStore& consumer, std::size_t samples, std::chrono::milliseconds pause) {
  SteadyTime handled_at;
  std::binary_semaphore handled{0};
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage&, HandlerContext&) {
    handled_at = std::chrono::steady_clock::now();
    handled.release();
  });
  Dispatcher dispatcher(consumer, std::move(handlers), {.workers = 2});
  dispatcher.start();
  Times took;
  for (const Message& message : make_messages(samples)) {
    std::this_thread::sleep_for(pause);
    const SteadyTime enqueued_at = std::chrono::steady_clock::now();
    enqueue(message);
    handled.acquire();
    took.push_back(std::chrono::duration<double, std::micro>(handled_at - enqueued_at).count());
  }
  dispatcher.stop();
  return took;
}

}  // namespace oncebox::bench
