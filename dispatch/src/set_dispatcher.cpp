#include "oncebox/dispatch/set_dispatcher.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "admission.hpp"
#include "counters.hpp"
#include "dead_handlers.hpp"
#include "effective_options.hpp"
#include "fair_ready_queue.hpp"
#include "guarded_selection.hpp"
#include "handler_calls.hpp"
#include "idle_watch.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "routes.hpp"
#include "set_scheduler.hpp"
#include "worker_pool.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kMaxCallsPerServer = 256;

SetDispatcherOptions effective(SetDispatcherOptions options, const Handlers& handlers) {
  options.validate();
  options.dispatcher = dispatcher::effective(std::move(options.dispatcher), handlers);
  return options;
}

std::unique_ptr<StoreSelection> guarded(std::unique_ptr<StoreSelection> selection, Logger& logger) {
  return std::make_unique<dispatcher::GuardedSelection>(
      selection ? std::move(selection) : round_robin(), logger);
}

}  // namespace

void SetDispatcherOptions::validate() const {
  dispatcher.validate();
  require_in_range("calls_per_server", calls_per_server, std::size_t{1}, kMaxCallsPerServer);
  require_in_range("notified_poll_interval", notified_poll_interval, dispatcher.poll_interval,
                   Duration{std::chrono::days{1}});
}

class SetDispatcher::Impl {
 public:
  Impl(StoreSource& stores, const Handlers& handlers, std::unique_ptr<StoreSelection> selection,
       const SetDispatcherOptions& options, const SurroundingsOfStores& surroundings)
      : options_(effective(options, handlers)),
        stores_(stores),
        selection_(guarded(std::move(selection), surroundings.logger)),
        logger_(surroundings.logger),
        observer_([surroundings](const std::string& store) -> Observer& {
          return surroundings.observer_of(store);
        }),
        clock_(surroundings.clock),
        routes_(handlers, options_.dispatcher.no_handler, clock_.now()),
        dead_handlers_(handlers, logger_),
        ready_(*options_.dispatcher.max_buffered),
        idle_(clock_),
        scheduler_(std::make_shared<dispatcher::SetScheduler>(dispatcher::SetScheduler::Parts{
            options_, routes_, ready_, *selection_, counters_, idle_, dead_handlers_, logger_,
            observer_, clock_, surroundings.tracer})),
        calls_({options_.dispatcher.retries, options_.dispatcher.no_handler,
                options_.dispatcher.max_deliveries},
               logger_, clock_),
        workers_({ready_, *scheduler_, calls_, clock_}, options_.dispatcher.workers),
        admission_({routes_, *scheduler_, ready_, workers_, calls_, clock_}) {}

  ~Impl() {
    begin_to_stop();
    workers_.interrupt_all();
    workers_.join();
    workers_.release_uncompleted();
    scheduler_->stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start();
  StopResult stop(const StopOptions& options);

  template <class Change>
  void change_pauses(Change change) {
    change(routes_);
    admission_.release_paused();
    scheduler_->wake();
  }

  void wake() noexcept { scheduler_->wake(); }
  bool wait_until_idle(const IdleOptions& options);
  [[nodiscard]] RunningStats stats() const;

 private:
  enum class State { created, running, stopped };

  void begin_to_stop();
  [[nodiscard]] bool is_own_thread();
  [[nodiscard]] StopResult rest() const;

  const SetDispatcherOptions options_;
  StoreSource& stores_;
  const std::unique_ptr<StoreSelection> selection_;
  Logger& logger_;
  const ObserverOfStore observer_;
  const Clock& clock_;
  dispatcher::Counters counters_;
  dispatcher::Routes routes_;
  const dispatcher::DeadHandlers dead_handlers_;
  dispatcher::FairReadyQueue ready_;
  dispatcher::IdleWatch idle_;
  const std::shared_ptr<dispatcher::SetScheduler> scheduler_;
  dispatcher::HandlerCalls calls_;
  dispatcher::WorkerPool workers_;
  dispatcher::Admission admission_;

  detail::Mutex lifecycle_mutex_;
  State state_ ONCEBOX_GUARDED_BY(lifecycle_mutex_) = State::created;
  std::vector<std::thread::id> worker_threads_ ONCEBOX_GUARDED_BY(lifecycle_mutex_);
};

void SetDispatcher::Impl::start() {
  {
    const detail::Lock lock(lifecycle_mutex_);
    if (state_ != State::created) {
      throw Error(ErrorCode::conflict, "a dispatcher is started once");
    }
    state_ = State::running;
    worker_threads_ = workers_.start();
  }
  scheduler_->start({workers_, admission_}, stores_);
  logger_.log(LogLevel::info, "dispatcher of many stores started",
              {{"worker", *options_.dispatcher.worker_name},
               {"owner", *options_.dispatcher.owner},
               {"workers", options_.dispatcher.workers},
               {"calls_per_server", options_.calls_per_server}});
}

void SetDispatcher::Impl::begin_to_stop() {
  {
    const detail::Lock lock(lifecycle_mutex_);
    state_ = State::stopped;
  }
  idle_.end();
  scheduler_->stop_claiming();
  for (dispatcher::InFlight* message : ready_.close()) workers_.give_back(*message);
}

bool SetDispatcher::Impl::is_own_thread() {
  if (scheduler_->is_own_thread()) return true;
  const auto self = std::this_thread::get_id();
  const detail::Lock lock(lifecycle_mutex_);
  return std::ranges::find(worker_threads_, self) != worker_threads_.end();
}

StopResult SetDispatcher::Impl::stop(const StopOptions& options) {
  const Duration finish_within = std::clamp(options.finish_within, Duration{0}, limits::kMaxDelay);
  const Duration interrupt_within =
      std::clamp(options.interrupt_within, Duration{0}, limits::kMaxDelay);
  const SteadyTime finish_at = clock_.steady() + finish_within;
  begin_to_stop();
  if (is_own_thread()) {
    if (finish_within == Duration::zero()) workers_.interrupt_all();
    return rest();
  }
  if (!scheduler_->wait_quiet_until(finish_at)) {
    workers_.interrupt_all();
    const bool is_quiet = scheduler_->wait_quiet_until(finish_at + interrupt_within);
    if (!is_quiet && workers_.release_uncompleted() > 0) {
      scheduler_->wait_quiet_until(finish_at + 2 * interrupt_within);
    }
  }
  const StopResult result = rest();
  if (!result.complete()) {
    logger_.log(LogLevel::warning, "dispatcher not stopped in time",
                {{"still_running", result.still_running}, {"unsettled", result.unsettled}});
  }
  return result;
}

bool SetDispatcher::Impl::wait_until_idle(const IdleOptions& options) {
  if (is_own_thread()) {
    throw Error(ErrorCode::conflict, "a handler cannot wait until its dispatcher is idle");
  }
  {
    const detail::Lock lock(lifecycle_mutex_);
    if (state_ == State::created) {
      throw Error(ErrorCode::conflict, "start the dispatcher before waiting until it is idle");
    }
  }
  return idle_.wait(*scheduler_, options);
}

StopResult SetDispatcher::Impl::rest() const {
  const std::size_t running = workers_.running();
  const std::size_t held = scheduler_->in_flight();
  if (held == 0) return {};
  return {.still_running = running, .unsettled = held - std::min(held, running)};
}

RunningStats SetDispatcher::Impl::stats() const {
  RunningStats stats;
  counters_.add_to(stats);
  workers_.add_to(stats);
  stats.buffered = ready_.size();
  const std::size_t held = scheduler_->in_flight();
  stats.unsettled = held - std::min(held, stats.buffered + stats.running);
  return stats;
}

SetDispatcher::SetDispatcher(StoreSource& stores, const Handlers& handlers,
                             std::unique_ptr<StoreSelection> selection,
                             const SetDispatcherOptions& options,
                             const SurroundingsOfStores& surroundings)
    : impl_(std::make_unique<Impl>(stores, handlers, std::move(selection), options, surroundings)) {
}

SetDispatcher::~SetDispatcher() = default;

void SetDispatcher::start() { impl_->start(); }

StopResult SetDispatcher::stop(const StopOptions& options) { return impl_->stop(options); }

void SetDispatcher::pause() {
  impl_->change_pauses([](dispatcher::Routes& routes) { routes.pause(); });
}

void SetDispatcher::resume() {
  impl_->change_pauses([](dispatcher::Routes& routes) { routes.resume(); });
}

void SetDispatcher::pause(const TopicPattern& pattern) {
  impl_->change_pauses([&](dispatcher::Routes& routes) { routes.pause(pattern); });
}

void SetDispatcher::resume(const TopicPattern& pattern) {
  impl_->change_pauses([&](dispatcher::Routes& routes) { routes.resume(pattern); });
}

void SetDispatcher::wake() noexcept { impl_->wake(); }

bool SetDispatcher::wait_until_idle(const IdleOptions& options) {
  return impl_->wait_until_idle(options);
}

RunningStats SetDispatcher::stats() const { return impl_->stats(); }

}  // namespace oncebox
