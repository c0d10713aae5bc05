#include "oncebox/dispatch/dispatcher.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "admission.hpp"
#include "claim_gate.hpp"
#include "claim_loop.hpp"
#include "counters.hpp"
#include "dead_handlers.hpp"
#include "effective_options.hpp"
#include "handler_calls.hpp"
#include "idle_watch.hpp"
#include "in_flight.hpp"
#include "lease_keeper.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/driver/observed_queue_store.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "ready_queue.hpp"
#include "routes.hpp"
#include "settler.hpp"
#include "wake_signal.hpp"
#include "worker_pool.hpp"

namespace oncebox {

class Dispatcher::Impl {
 public:
  Impl(QueueStore& store, const Handlers& handlers, const DispatcherOptions& options,
       const Surroundings& surroundings);

  void start();
  StopResult stop(const StopOptions& options);
  bool wait_until_idle(const IdleOptions& options);
  void stop_and_join();

  template <class Change>
  void change_pauses(Change change) {
    change(routes_);
    admission_.release_paused();
    gate_.signal().raise(dispatcher::ClaimReasons::kLook);
  }

  void wake() noexcept {
    gate_.signal().raise(dispatcher::ClaimReasons::kLook);
    settle_signal_.raise(kLook);
    keep_signal_.raise(kLook);
  }

  [[nodiscard]] RunningStats stats() const;
  [[nodiscard]] const OwnerToken& owner() const noexcept { return *options_.owner; }

 private:
  enum class State { created, running, stopped };
  static constexpr dispatcher::WakeSignal::Reasons kVerdicts = 1;
  static constexpr dispatcher::WakeSignal::Reasons kLook = 2;

  void start_threads() ONCEBOX_REQUIRES(lifecycle_mutex_);
  void settle(const std::stop_token& stop);
  void keep_leases(const std::stop_token& stop);
  void begin_to_stop();
  bool is_own_thread();
  [[nodiscard]] StopResult rest() const;

  const DispatcherOptions options_;
  Logger& logger_;
  Observer& observer_;
  const Clock& clock_;
  ObservedQueueStore store_;
  dispatcher::Counters counters_;
  dispatcher::Routes routes_;
  dispatcher::InFlightTable table_;
  dispatcher::ReadyQueue ready_;
  dispatcher::IdleWatch idle_;
  dispatcher::ClaimGate gate_;
  dispatcher::WakeSignal settle_signal_;
  dispatcher::WakeSignal keep_signal_;
  const dispatcher::DeadHandlers dead_handlers_;
  dispatcher::Settler settler_;
  dispatcher::Origin origin_;
  dispatcher::HandlerCalls calls_;
  dispatcher::WorkerPool workers_;
  dispatcher::LeaseKeeper keeper_;
  dispatcher::Admission admission_;
  dispatcher::ClaimLoop claim_loop_;

  detail::Mutex lifecycle_mutex_;
  State state_ ONCEBOX_GUARDED_BY(lifecycle_mutex_) = State::created;
  std::vector<std::thread::id> own_threads_ ONCEBOX_GUARDED_BY(lifecycle_mutex_);
  // Set by `start` under the lock; joined by a `start` that failed, or by the destructor.
  std::jthread settler_thread_;
  std::jthread keeper_thread_;
  std::jthread claim_thread_;
};

Dispatcher::Impl::Impl(QueueStore& store, const Handlers& handlers,
                       const DispatcherOptions& options, const Surroundings& surroundings)
    : options_(dispatcher::effective(options, handlers)),
      logger_(surroundings.logger),
      observer_(surroundings.observer),
      clock_(surroundings.clock),
      store_(store, options_.name, surroundings),
      routes_(handlers, options_.no_handler, clock_.now()),
      table_(dispatcher::in_flight_capacity(options_), clock_),
      ready_(dispatcher::in_flight_capacity(options_)),
      idle_(clock_),
      gate_({options_.batch_size, *options_.max_buffered, options_.buffer_bytes}, ready_, table_,
            idle_, clock_),
      settle_signal_(clock_),
      keep_signal_(clock_),
      dead_handlers_(handlers, logger_),
      settler_({store_, table_, gate_, gate_, counters_, logger_, observer_, clock_, options_.name,
                dead_handlers_},
               [this] { settle_signal_.raise(kVerdicts); }),
      origin_{options_.name, settler_, observer_, store_.transactional(), surroundings.tracer},
      calls_({options_.retries, options_.no_handler, options_.max_deliveries}, logger_, clock_),
      workers_({ready_, gate_, calls_, clock_}, options_.workers),
      keeper_(
          {store_, table_, ready_, workers_, counters_, logger_, observer_, clock_, options_.name},
          {options_.lease, options_.reap_interval}),
      admission_({routes_, gate_, ready_, workers_, calls_, clock_}),
      claim_loop_({store_, routes_, gate_, table_, origin_, admission_, idle_, counters_, logger_,
                   clock_, options_.name},
                  {*options_.owner, *options_.worker_name, options_.lease, options_.poll_interval,
                   options_.max_poll_interval}) {
  if (origin_.transactions == nullptr) dispatcher::refuse_transactional(handlers);
}

void Dispatcher::Impl::start() {
  std::exception_ptr failure;
  {
    const detail::Lock lock(lifecycle_mutex_);
    if (state_ != State::created) {
      throw Error(ErrorCode::conflict, "a dispatcher is started once");
    }
    state_ = State::running;
    try {
      start_threads();
    } catch (...) {
      failure = std::current_exception();
      if (!claim_thread_.joinable()) table_.unhold();
    }
  }
  if (failure) {
    stop_and_join();
    std::rethrow_exception(failure);
  }
  logger_.log(LogLevel::info, "dispatcher started",
              {{"store", options_.name},
               {"worker", *options_.worker_name},
               {"owner", owner()},
               {"workers", options_.workers}});
}

void Dispatcher::Impl::start_threads() {
  table_.hold();  // until the claim loop has ended: it may still bring messages
  store_.listen(gate_.listener());
  settler_thread_ = std::jthread([this](const std::stop_token& stop) { settle(stop); });
  keeper_thread_ = std::jthread([this](const std::stop_token& stop) { keep_leases(stop); });
  own_threads_ = workers_.start();
  claim_thread_ = std::jthread([this](const std::stop_token& stop) {
    claim_loop_.run(stop);
    table_.unhold();
  });
  for (const auto* thread : {&settler_thread_, &keeper_thread_, &claim_thread_}) {
    own_threads_.push_back(thread->get_id());
  }
}

// Ends once a stop is requested and nothing is left.
void Dispatcher::Impl::settle(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] { settle_signal_.raise(kVerdicts | kLook); });
  for (;;) {
    const bool may_be_last = stop.stop_requested();
    const SteadyTime next = settler_.step();
    if (next == dispatcher::Settler::kNothingLeft) {
      if (may_be_last) return;
      settle_signal_.wait(kVerdicts);
    } else if (next > clock_.steady()) {
      settle_signal_.wait_until(kLook, next);
    }
  }
}

void Dispatcher::Impl::keep_leases(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] { keep_signal_.raise(kLook); });
  while (!stop.stop_requested()) keep_signal_.wait_until(kLook, keeper_.step());
}

bool Dispatcher::Impl::is_own_thread() {
  const detail::Lock lock(lifecycle_mutex_);
  const auto self = std::this_thread::get_id();
  return std::find(own_threads_.begin(), own_threads_.end(), self) != own_threads_.end();
}

void Dispatcher::Impl::begin_to_stop() {
  const detail::Lock lock(lifecycle_mutex_);
  if (std::exchange(state_, State::stopped) != State::running) return;
  claim_thread_.request_stop();
  keeper_.stop_reaping();
  idle_.end();
  for (dispatcher::InFlight* message : ready_.close()) workers_.give_back(*message);
}

StopResult Dispatcher::Impl::stop(const StopOptions& options) {
  const Duration finish_within = std::clamp(options.finish_within, Duration{0}, limits::kMaxDelay);
  const Duration interrupt_within =
      std::clamp(options.interrupt_within, Duration{0}, limits::kMaxDelay);
  const SteadyTime finish_at = clock_.steady() + finish_within;
  begin_to_stop();
  if (is_own_thread()) {
    if (finish_within == Duration::zero()) workers_.interrupt_all();
    return rest();
  }
  if (!table_.wait_quiet_until(finish_at)) {
    workers_.interrupt_all();
    const bool is_quiet = table_.wait_quiet_until(finish_at + interrupt_within);
    if (!is_quiet && workers_.release_uncompleted() > 0) {
      table_.wait_quiet_until(finish_at + 2 * interrupt_within);
    }
  }
  const StopResult result = rest();
  if (!result.complete()) {
    logger_.log(LogLevel::warning, "dispatcher not stopped in time",
                {{"store", options_.name},
                 {"still_running", result.still_running},
                 {"unsettled", result.unsettled}});
  }
  return result;
}

bool Dispatcher::Impl::wait_until_idle(const IdleOptions& options) {
  if (is_own_thread()) {
    throw Error(ErrorCode::conflict, "a handler cannot wait until its dispatcher is idle");
  }
  {
    const detail::Lock lock(lifecycle_mutex_);
    if (state_ == State::created) {
      throw Error(ErrorCode::conflict, "start the dispatcher before waiting until it is idle");
    }
  }
  return idle_.wait(claim_loop_, options);
}

StopResult Dispatcher::Impl::rest() const {
  if (table_.is_quiet()) return {};
  const std::size_t running = workers_.running();
  const std::size_t held = table_.size();
  // A claim that has not returned yet may still bring messages: it counts as one.
  const std::size_t claiming = held == 0 ? 1 : 0;
  return {.still_running = running, .unsettled = held - std::min(held, running) + claiming};
}

// Workers first, as their last verdicts are settled; leases are kept until everything is.
void Dispatcher::Impl::stop_and_join() {
  begin_to_stop();
  workers_.interrupt_all();
  if (claim_thread_.joinable()) claim_thread_.join();
  workers_.join();
  workers_.release_uncompleted();
  settler_.stop_repeating();
  settle_signal_.raise(kLook);
  settler_thread_ = {};
  keeper_thread_ = {};
}

RunningStats Dispatcher::Impl::stats() const {
  RunningStats stats;
  counters_.add_to(stats);
  workers_.add_to(stats);
  stats.buffered = ready_.size();
  const std::size_t begun = stats.buffered + stats.running;
  stats.unsettled = table_.size() - std::min(table_.size(), begun);
  return stats;
}

Dispatcher::Dispatcher(QueueStore& store, const Handlers& handlers,
                       const DispatcherOptions& options, const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(store, handlers, options, surroundings)) {}

Dispatcher::~Dispatcher() { impl_->stop_and_join(); }

void Dispatcher::start() { impl_->start(); }

StopResult Dispatcher::stop(const StopOptions& options) { return impl_->stop(options); }

void Dispatcher::pause() {
  impl_->change_pauses([](dispatcher::Routes& routes) { routes.pause(); });
}

void Dispatcher::resume() {
  impl_->change_pauses([](dispatcher::Routes& routes) { routes.resume(); });
}

void Dispatcher::pause(const TopicPattern& pattern) {
  impl_->change_pauses([&](dispatcher::Routes& routes) { routes.pause(pattern); });
}

void Dispatcher::resume(const TopicPattern& pattern) {
  impl_->change_pauses([&](dispatcher::Routes& routes) { routes.resume(pattern); });
}

void Dispatcher::wake() noexcept { impl_->wake(); }

bool Dispatcher::wait_until_idle(const IdleOptions& options) {
  return impl_->wait_until_idle(options);
}

RunningStats Dispatcher::stats() const { return impl_->stats(); }

const OwnerToken& Dispatcher::owner() const noexcept { return impl_->owner(); }

}  // namespace oncebox
