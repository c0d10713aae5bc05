#include "oncebox/otlp/exporter.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "collector.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/internal/pause.hpp"
#include "span_json.hpp"

namespace oncebox::otlp {

namespace {

constexpr detail::Backoff::Bounds kPauses{.first = Duration{200}, .longest = Duration{10'000}};

void require(bool holds, const char* text) {
  if (!holds) throw Error(ErrorCode::out_of_range, text);
}

const ExporterOptions& validated(const ExporterOptions& options) {
  options.validate();
  return options;
}

std::vector<std::string> room_for(std::size_t spans) {
  std::vector<std::string> batch;
  batch.reserve(spans);
  return batch;
}

}  // namespace

void ExporterOptions::validate() const {
  static constexpr Duration kLongest = std::chrono::hours{1};
  const auto is_time = [](Duration time) { return time > Duration::zero() && time <= kLongest; };
  require(sampled_share >= 0 && sampled_share <= 1, "sampled_share: from 0 to 1");
  require(max_queued > 0, "max_queued: at least 1");
  require(max_batch > 0, "max_batch: at least 1");
  require(is_time(interval), "interval: above 0, up to an hour");
  require(is_time(timeout), "timeout: above 0, up to an hour");
  require(max_attempts > 0, "max_attempts: at least 1");
  require(is_time(finish_within), "finish_within: above 0, up to an hour");
}

class Exporter::Impl {
 public:
  Impl(const ExporterOptions& options, Logger& logger, const Clock& clock);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] bool samples(const TraceContext::TraceId& trace) const noexcept;
  void add(const Span& span) noexcept;
  bool flush(Duration within);
  [[nodiscard]] ExporterStats stats() const;

 private:
  [[nodiscard]] bool is_full() const;
  /// Spans of which it is known what became of them.
  [[nodiscard]] std::uint64_t answered() const ONCEBOX_REQUIRES(mutex_) {
    return stats_.exported + stats_.failed;
  }
  [[nodiscard]] bool is_batch_wanted() const ONCEBOX_REQUIRES(mutex_) {
    return spans_.size() >= options_.max_batch || flushes_up_to_ > answered();
  }
  void drop() noexcept;
  void run(const std::stop_token& stop);
  void wait_for_spans(const std::stop_token& stop);
  void take_batch();
  void send(std::span<const std::string> spans, const std::stop_token& stop);
  void conclude(std::size_t spans, const Collector::Answer& answer);
  void note(const Collector::Answer& answer);

  const ExporterOptions options_;
  const double sampled_below_;  ///< of the highest number that a trace id can have
  Logger& logger_;
  const Clock& clock_;
  WallTimes times_;
  Collector collector_;  // of the thread, as are the next two
  bool is_away_ = false;
  std::vector<std::string> batch_ = room_for(options_.max_batch);
  detail::Pause pause_;

  mutable detail::Mutex mutex_;
  detail::TimedCondition wanted_;    // by the clock: spans, a flush
  detail::TimedCondition answered_;  // in real time, as requests take it
  std::deque<std::string> spans_ ONCEBOX_GUARDED_BY(mutex_);
  std::size_t sending_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::uint64_t flushes_up_to_ ONCEBOX_GUARDED_BY(mutex_) = 0;  ///< counted as `added_` is
  std::uint64_t added_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  ExporterStats stats_ ONCEBOX_GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses the members above
};

Exporter::Impl::Impl(const ExporterOptions& options, Logger& logger, const Clock& clock)
    : options_(validated(options)),
      sampled_below_(std::ldexp(options.sampled_share, 64)),
      logger_(logger),
      clock_(clock),
      times_(clock),
      collector_(options_),
      pause_(clock),
      wanted_(clock),
      answered_(SystemClock::shared()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

Exporter::Impl::~Impl() {
  collector_.give_up_at(SystemClock::shared().steady() + options_.finish_within);
  {
    const detail::Lock lock(mutex_);
    thread_.request_stop();
  }
  wanted_.notify_all();
}

// By the last 8 bytes, of which W3C asks that they are random.
bool Exporter::Impl::samples(const TraceContext::TraceId& trace) const noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = 8; i < trace.size(); ++i) number = number << 8U | trace[i];
  return static_cast<double>(number) < sampled_below_;
}

void Exporter::Impl::add(const Span& span) noexcept {
  try {
    if (is_full()) return drop();
    std::string text = span_json(span, times_);
    const detail::Lock lock(mutex_);
    spans_.push_back(std::move(text));
    ++added_;
    // The thread sleeps while there is nothing, and gathers up to a batch.
    if (spans_.size() != 1 && spans_.size() != options_.max_batch) return;
  } catch (const std::exception&) {
    return drop();  // no memory
  }
  wanted_.notify_all();
}

// Checked before the work is done. Threads that add at the same time may exceed the limit by one
// span each.
bool Exporter::Impl::is_full() const {
  const detail::Lock lock(mutex_);
  return spans_.size() + sending_ >= options_.max_queued;
}

void Exporter::Impl::drop() noexcept {
  const detail::Lock lock(mutex_);
  ++stats_.dropped;
}

bool Exporter::Impl::flush(Duration within) {
  const SteadyTime until = SystemClock::shared().steady() + within;
  const detail::Lock lock(mutex_);
  const std::uint64_t last = added_;
  flushes_up_to_ = last;
  wanted_.notify_all();
  while (answered() < last) {
    if (!answered_.wait_until(mutex_, until)) return answered() >= last;
  }
  return true;
}

ExporterStats Exporter::Impl::stats() const {
  const detail::Lock lock(mutex_);
  ExporterStats stats = stats_;
  stats.queued = spans_.size() + sending_;
  return stats;
}

void Exporter::Impl::run(const std::stop_token& stop) {
  while (true) {
    wait_for_spans(stop);
    take_batch();
    if (batch_.empty() && stop.stop_requested()) return;
    if (batch_.empty()) continue;
    try {
      send(batch_, stop);
    } catch (const std::exception& failure) {
      conclude(batch_.size(), {.problem = failure.what()});
    }
  }
}

void Exporter::Impl::wait_for_spans(const std::stop_token& stop) {
  const detail::Lock lock(mutex_);
  while (spans_.empty() && !stop.stop_requested()) wanted_.wait(mutex_);
  const SteadyTime until = clock_.steady() + options_.interval;
  while (!is_batch_wanted() && !stop.stop_requested()) {
    if (!wanted_.wait_until(mutex_, until)) return;
  }
}

// It needs no memory: there is room for a batch from the beginning.
void Exporter::Impl::take_batch() {
  times_.follow();
  const detail::Lock lock(mutex_);
  batch_.clear();
  const std::size_t count = std::min(spans_.size(), options_.max_batch);
  std::move(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(count),
            std::back_inserter(batch_));
  spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(count));
  sending_ = count;
}

void Exporter::Impl::send(std::span<const std::string> spans, const std::stop_token& stop) {
  const std::string body = request_json(options_.service_name, options_.resource, spans);
  detail::Backoff backoff(kPauses);
  for (int attempt = 1;; ++attempt) {
    const Collector::Answer answer = collector_.post(body);
    note(answer);
    const bool is_over = answer.taken || !answer.may_be_taken_later || stop.stop_requested();
    if (is_over || attempt >= options_.max_attempts) return conclude(spans.size(), answer);
    pause_.wait(stop, std::max(backoff.take(), answer.retry_after.value_or(Duration::zero())));
    if (stop.stop_requested()) return conclude(spans.size(), answer);
  }
}

void Exporter::Impl::conclude(std::size_t spans, const Collector::Answer& answer) {
  const std::uint64_t rejected =
      answer.taken ? std::min<std::uint64_t>(rejected_spans(answer.body), spans) : spans;
  {
    const detail::Lock lock(mutex_);
    stats_.exported += spans - rejected;
    stats_.failed += rejected;
    sending_ = 0;
  }
  answered_.notify_all();
}

void Exporter::Impl::note(const Collector::Answer& answer) {
  if (answer.taken == !is_away_) return;
  is_away_ = !answer.taken;
  if (answer.taken) {
    logger_.log(LogLevel::info, "spans are exported again", {{"collector", collector_.host()}});
  } else {
    logger_.log(LogLevel::warning, "spans cannot be exported",
                {{"collector", collector_.host()}, {"reason", answer.problem}});
  }
}

Exporter::Exporter(const ExporterOptions& options, const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(options, surroundings.logger, surroundings.clock)) {}

Exporter::~Exporter() = default;

bool Exporter::samples(const TraceContext::TraceId& trace) noexcept {
  return impl_->samples(trace);
}

void Exporter::on_span(const Span& span) noexcept { impl_->add(span); }

bool Exporter::flush(Duration within) { return impl_->flush(within); }

ExporterStats Exporter::stats() const { return impl_->stats(); }

}  // namespace oncebox::otlp
