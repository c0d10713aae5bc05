#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <semaphore>
#include <vector>

#include "oncebox/queue_store.hpp"

namespace oncebox::bench {

/// Enqueues messages of `make_messages`, a thousand in a call.
void enqueue_all(QueueStore& queue, std::size_t count, std::size_t first = 0);

/// Counts handled messages and tells when the last one has come.
class Countdown {
 public:
  explicit Countdown(std::size_t count) : left_(count) {}

  void count() {
    if (left_.fetch_sub(1) == 1) done_.release();
  }
  void wait() { done_.acquire(); }

 private:
  std::atomic<std::size_t> left_;
  std::binary_semaphore done_{0};
};

struct Draining {
  std::size_t workers = 2;
  std::size_t batch_size = 500;
};

/// How many messages a second a dispatcher with an empty handler drains, of `count` that wait. The
/// clock stops when every verdict is recorded, not when the last handler has run.
[[nodiscard]] double drain_through_dispatcher(QueueStore& queue, std::size_t count,
                                              const Draining& draining = {});

/// Times in microseconds.
using Times = std::vector<double>;

struct Quantiles {
  double p50_us = 0;
  double p99_us = 0;
};
[[nodiscard]] Quantiles quantiles_of(Times times);

/// From the call of enqueue to the first line of the handler, one message at a time.
[[nodiscard]] Times measure_latency(const std::function<void(const Message& message)>& enqueue,
                                    QueueStore& consumer, std::size_t samples,
                                    std::chrono::milliseconds pause);
/// The same; `producer` and `consumer` are two handles of one queue, or the same one.
[[nodiscard]] Times measure_latency(QueueStore& producer, QueueStore& consumer, std::size_t samples,
                                    std::chrono::milliseconds pause = std::chrono::milliseconds{0});

}  // namespace oncebox::bench
