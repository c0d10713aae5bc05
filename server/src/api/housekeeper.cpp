#include "api/housekeeper.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

namespace oncebox::server {

namespace {

using std::chrono::steady_clock;

constexpr std::size_t kReapBatch = 500;
constexpr std::size_t kCleanupBatch = 250;
constexpr std::size_t kKeyBatch = 1'000;
/// After a batch comes a pause of so many times its length: most of the time is for the clients.
constexpr int kPausePerBatch = 4;
constexpr Duration kShortestPause{1};
constexpr Duration kFirstFailurePause = std::chrono::seconds{1};
constexpr Duration kLongestFailurePause = std::chrono::minutes{5};

}  // namespace

Housekeeper::Housekeeper(ServedStore& store, const ApiParts& parts) : store_(store), parts_(parts) {
  add_queue_jobs(store_.inbox);
  add_queue_jobs(store_.outbox);
  IdempotencyStore& keys = store_.store.store().keys();
  jobs_.push_back({.name = "cleanup of keys",
                   .interval = parts_.options.retention.interval,
                   .step = [&keys] { return keys.cleanup(kKeyBatch) == kKeyBatch; }});
}

void Housekeeper::add_queue_jobs(ServedQueue& queue) {
  const RetentionOptions& retention = parts_.options.retention;
  const bool is_inbox = &queue == &store_.inbox;
  jobs_.push_back({.name = is_inbox ? "reap of the inbox" : "reap of the outbox",
                   .interval = retention.reap_interval,
                   .step = [&queue] {
                     const ReapRequest request{.limit = kReapBatch,
                                               .max_deliveries = queue.claims->max_deliveries()};
                     return queue.queue.reap(request).total() == kReapBatch;
                   }});
  jobs_.push_back({.name = is_inbox ? "cleanup of the inbox" : "cleanup of the outbox",
                   .interval = retention.interval,
                   .step = [&queue, &retention] {
                     const CleanupRequest request{.done_retention = retention.done,
                                                  .dead_retention = retention.dead,
                                                  .limit = kCleanupBatch};
                     return queue.operations.cleanup(request).total() == kCleanupBatch;
                   }});
}

void Housekeeper::start() {
  const SteadyTime now = steady_clock::now();
  for (Job& job : jobs_) job.next = now + job.interval;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Housekeeper::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Housekeeper::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Job& next = *std::ranges::min_element(jobs_, {}, &Job::next);
    {
      std::unique_lock lock(mutex_);
      stopping_.wait_until(lock, stop, next.next, [] { return false; });
    }
    if (!stop.stop_requested()) run(next);
  }
}

void Housekeeper::run(Job& job) {
  const SteadyTime started = steady_clock::now();
  Duration pause = std::max(job.interval, kShortestPause);
  try {
    const bool more = job.step();
    const auto took = std::chrono::ceil<Duration>(steady_clock::now() - started);
    if (more) pause = std::min(pause, std::max(took * kPausePerBatch, kShortestPause));
    job.failure_pause = Duration{0};
  } catch (const std::exception& failure) {
    job.failure_pause = std::clamp(job.failure_pause * 2, kFirstFailurePause, kLongestFailurePause);
    pause = std::max(pause, job.failure_pause);
    parts_.logger.log(LogLevel::warning, "housekeeping failed, will be tried again",
                      {{"store", store_.store.name()},
                       {"job", job.name},
                       {"pause_ms", pause},
                       {"reason", failure.what()}});
  }
  job.next = steady_clock::now() + pause;
}

}  // namespace oncebox::server
