#include "api/event_streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "observe/metrics.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

using std::chrono::steady_clock;

constexpr Duration kWatchedInterval = std::chrono::seconds{1};
constexpr Duration kUnwatchedInterval = std::chrono::seconds{10};
/// Counting may take at most one part in so many of the time.
constexpr int kSampleShare = 5;
constexpr Duration kHeartbeat = std::chrono::seconds{15};
constexpr Duration kWorkInterval{50};
/// When a client that lost its connection comes back.
constexpr const char* kReconnect = "retry: 2000\n\n";

std::string server_sent(std::string_view event, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", event, data);
}

}  // namespace

/// Hears of one queue's work and passes it on, at most so often.
class EventStreams::WorkWatch final : public WorkListener,
                                      public std::enable_shared_from_this<WorkWatch> {
 public:
  WorkWatch(EventStreams& streams, const ServedQueue& queue)
      : streams_(streams),
        event_(server_sent("work", write_work_event(queue.store.name(), queue.name))) {}

  void on_work() noexcept override {
    const std::lock_guard lock(mutex_);
    if (closed_ || armed_ || streams_.listeners_ == 0) return;
    armed_ = true;
    streams_.parts_.timers.at(std::max(steady_clock::now(), last_ + kWorkInterval),
                              [self = shared_from_this()] { self->tell(); });
  }

  void close() noexcept {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  void tell() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      armed_ = false;
      last_ = steady_clock::now();
    }
    streams_.broadcast(event_);
  }

  EventStreams& streams_;
  const std::string event_;
  std::mutex mutex_;
  bool closed_ = false;
  bool armed_ = false;
  SteadyTime last_{};
};

EventStreams::EventStreams(ServedStores& stores, const ApiParts& parts)
    : stores_(stores), parts_(parts) {
  for (const auto& store : stores_) {
    watches_.push_back(std::make_shared<WorkWatch>(*this, store->inbox));
    watches_.push_back(std::make_shared<WorkWatch>(*this, store->outbox));
    failing_.push_back(false);
  }
}

EventStreams::~EventStreams() { stop(); }

void EventStreams::start() {
  auto watch = watches_.begin();
  for (const auto& store : stores_) {
    store->inbox.queue.listen(*watch++);
    store->outbox.queue.listen(*watch++);
  }
  sampler_ = std::jthread([this](const std::stop_token& stop) { sample_until_stopped(stop); });
  beat();
}

void EventStreams::add(const ExchangePtr& exchange) {
  Response head{.content_type = "text/event-stream"};
  head.fields.add("Cache-Control", "no-store");
  if (exchange->request().method == Method::head) return exchange->send(std::move(head));

  StreamPtr stream;
  std::string first = kReconnect;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) throw Error(ErrorCode::unavailable, "the server is stopping");
    if (streams_.size() >= parts_.options.limits.max_event_streams) {
      throw Error(ErrorCode::overloaded, "too many clients listen to events already");
    }
    stream = exchange->send_stream(std::move(head));
    streams_.push_back(stream);
    listeners_ = streams_.size();
    first += last_sample_;
  }
  stream->write(std::move(first));
  somebody_listens_.notify_all();
}

void EventStreams::broadcast(const std::string& text) noexcept {
  std::vector<StreamPtr> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
  }
  std::erase_if(streams, [&](const StreamPtr& stream) { return stream->write(text); });
  if (streams.empty()) return;
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [&](const StreamPtr& stream) {
    return std::ranges::find(streams, stream) != streams.end();
  });
  listeners_ = streams_.size();
}

void EventStreams::beat() {
  parts_.timers.at(steady_clock::now() + kHeartbeat, [this] {
    broadcast(":\n\n");
    beat();
  });
}

void EventStreams::drain() noexcept {
  std::vector<StreamPtr> streams;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    streams.swap(streams_);
    listeners_ = 0;
  }
  for (const StreamPtr& stream : streams) stream->end();
}

void EventStreams::stop() {
  drain();
  for (const auto& watch : watches_) watch->close();
  sampler_.request_stop();
  if (sampler_.joinable()) sampler_.join();
}

void EventStreams::sample_until_stopped(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const SteadyTime started = steady_clock::now();
    sample();
    const SteadyTime ended = steady_clock::now();
    const auto rest = std::chrono::ceil<Duration>(ended - started) * kSampleShare;
    const SteadyTime watched = std::max(started + kWatchedInterval, ended + rest);
    const SteadyTime unwatched = std::max(started + kUnwatchedInterval, ended + rest);
    std::unique_lock lock(mutex_);
    somebody_listens_.wait_until(lock, stop, watched, [] { return false; });
    somebody_listens_.wait_until(lock, stop, unwatched, [this] { return !streams_.empty(); });
  }
}

void EventStreams::sample() {
  std::vector<QueueSample> samples;
  std::size_t index = 0;
  for (const auto& store : stores_) {
    const bool healthy = sample_store(*store, samples);
    parts_.metrics.on_store_health(store->store.name(), healthy);
    if (!healthy && !failing_[index]) {
      parts_.logger.log(LogLevel::warning, "the store does not answer",
                        {{"store", store->store.name()}});
    }
    failing_[index++] = !healthy;
  }
  const bool somebody_listens = listeners_ > 0;
  std::string event;
  if (somebody_listens) event = server_sent("stats", write_samples(samples, parts_.clock.now()));
  {
    const std::lock_guard lock(mutex_);
    last_sample_ = event;
  }
  if (somebody_listens) broadcast(event);
}

bool EventStreams::sample_store(ServedStore& store, std::vector<QueueSample>& samples) {
  try {
    if (store.store.store().health().status == HealthStatus::unavailable) return false;
    for (ServedQueue* queue : {&store.inbox, &store.outbox}) {
      QueueStats stats = queue->operations.stats();
      parts_.metrics.on_stats(store.store.name(), queue->name, stats, parts_.clock.now());
      samples.push_back({store.store.name(), queue->name, std::move(stats)});
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace oncebox::server
