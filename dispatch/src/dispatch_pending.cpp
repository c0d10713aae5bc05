#include "oncebox/dispatch/dispatch_pending.hpp"

#include <algorithm>
#include <limits>
#include <stop_token>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "admission.hpp"
#include "claim_hints.hpp"
#include "counters.hpp"
#include "dead_handlers.hpp"
#include "effective_options.hpp"
#include "handler_calls.hpp"
#include "in_flight.hpp"
#include "lease_keeper.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/driver/observed_queue_store.hpp"
#include "oncebox/error.hpp"
#include "ready_queue.hpp"
#include "routes.hpp"
#include "settler.hpp"
#include "wake_signal.hpp"
#include "worker_pool.hpp"

namespace oncebox {

namespace {

/// Nobody waits for room or work: the thread that makes it uses it.
class NoHints final : public dispatcher::RoomHints, public dispatcher::WorkHints {
 public:
  void on_admitted(dispatcher::Origin&, std::size_t) noexcept override {}
  void on_payload_freed(dispatcher::Origin&, std::size_t) noexcept override {}
  void on_room() noexcept override {}
  void on_idle() noexcept override {}
  void on_limit_eased() noexcept override {}
  void on_due(TimePoint) noexcept override {}
  void on_claimable() noexcept override {}
};

DispatcherOptions for_one_thread(DispatcherOptions options, const Handlers& handlers,
                                 std::size_t limit) {
  require_in_range("limit", limit, std::size_t{1}, std::numeric_limits<std::size_t>::max());
  options = dispatcher::effective(std::move(options), handlers);
  options.batch_size = std::min(options.batch_size, limit);
  options.reap_interval = {};
  return options;
}

/// The parts of a dispatcher, of which one thread does the work.
class PendingRun {
 public:
  PendingRun(QueueStore& store, const Handlers& handlers, std::size_t limit,
             const DispatcherOptions& options, const Surroundings& around, std::stop_token stop);

  DispatchedPending run();

 private:
  static constexpr dispatcher::WakeSignal::Reasons kVerdicts = 1;
  /// What one look has brought.
  struct Batch {
    std::size_t messages = 0;
    bool is_full = false;         ///< there may be more
    bool frees_others = false;    ///< those behind a message in its partition
    bool has_come_again = false;  ///< a message that was tried already
  };

  void keep_leases(const std::stop_token& stop);
  [[nodiscard]] Batch claim();
  void claim(const dispatcher::ClaimPlan& plan, Batch& batch);
  void take_in(std::vector<ClaimedMessage> messages, TimePoint lease_until, Batch& batch);
  void release(const std::vector<ClaimedMessage>& messages);
  void handle();
  void record();
  [[nodiscard]] DispatchedPending result() const;

  const DispatcherOptions options_;
  const std::stop_token stop_;
  Logger& logger_;
  const Clock& clock_;
  ObservedQueueStore store_;
  NoHints hints_;
  dispatcher::Counters counters_;
  dispatcher::Routes routes_;
  const dispatcher::DeadHandlers dead_handlers_;
  dispatcher::InFlightTable table_;
  dispatcher::ReadyQueue ready_;
  dispatcher::WakeSignal keep_signal_;
  dispatcher::WakeSignal verdicts_;
  dispatcher::Settler settler_;
  dispatcher::Origin origin_;
  dispatcher::HandlerCalls calls_;
  dispatcher::WorkerPool worker_;
  dispatcher::LeaseKeeper keeper_;
  dispatcher::Admission admission_;

  std::size_t left_;  // messages that it may still take
  std::unordered_set<MessageKey> taken_;
};

PendingRun::PendingRun(QueueStore& store, const Handlers& handlers, std::size_t limit,
                       const DispatcherOptions& options, const Surroundings& around,
                       std::stop_token stop)
    : options_(for_one_thread(options, handlers, limit)),
      stop_(std::move(stop)),
      logger_(around.logger),
      clock_(around.clock),
      store_(store, options_.name, around),
      routes_(handlers, options_.no_handler, around.clock.now()),
      dead_handlers_(handlers, around.logger),
      table_(options_.batch_size, around.clock),
      ready_(options_.batch_size),
      keep_signal_(around.clock),
      verdicts_(around.clock),
      settler_({store_, table_, hints_, hints_, counters_, around.logger, around.observer,
                around.clock, options_.name, dead_handlers_},
               [this] { verdicts_.raise(kVerdicts); }),
      origin_{options_.name, settler_, around.observer, store_.transactional(), around.tracer},
      calls_({options_.retries, options_.no_handler, options_.max_deliveries}, around.logger,
             around.clock),
      worker_({ready_, hints_, calls_, around.clock}, 1),
      keeper_({store_, table_, ready_, worker_, counters_, around.logger, around.observer,
               around.clock, options_.name},
              {options_.lease, options_.reap_interval}),
      admission_({routes_, hints_, ready_, worker_, calls_, around.clock}),
      left_(limit) {
  if (origin_.transactions == nullptr) dispatcher::refuse_transactional(handlers);
}

DispatchedPending PendingRun::run() {
  const std::jthread keeper([this](const std::stop_token& stop) { keep_leases(stop); });
  const std::stop_callback on_stop(stop_, [this] {
    worker_.interrupt_all();
    verdicts_.raise(kVerdicts);
  });
  for (bool has_more = true; has_more && left_ > 0 && !stop_.stop_requested();) {
    Batch batch;
    try {
      batch = claim();
    } catch (const std::exception& failure) {
      if (taken_.empty()) throw;
      logger_.log(LogLevel::warning, "claim failed, what is pending is left",
                  {{"store", options_.name}, {"reason", failure.what()}});
    }
    handle();
    const bool goes_on = !batch.has_come_again && counters_.given_up == 0;
    has_more = goes_on && (batch.is_full || batch.frees_others);
  }
  return result();
}

void PendingRun::keep_leases(const std::stop_token& stop) {
  constexpr dispatcher::WakeSignal::Reasons kLook = 1;
  const std::stop_callback on_stop(stop, [this] { keep_signal_.raise(kLook); });
  while (!stop.stop_requested()) keep_signal_.wait_until(kLook, keeper_.step());
}

PendingRun::Batch PendingRun::claim() {
  Batch batch;
  const auto plans = routes_.plan(std::min(left_, options_.batch_size), clock_.now());
  for (const auto* plan : {&plans.unlimited, &plans.limited}) {
    if (*plan) claim(**plan, batch);
  }
  return batch;
}

void PendingRun::claim(const dispatcher::ClaimPlan& plan, Batch& batch) {
  const std::size_t room = std::min(left_, options_.batch_size - batch.messages);
  const std::size_t limit = std::min(plan.limit, room);
  if (limit == 0) {
    batch.is_full = true;
    return;
  }
  const ClaimRequest request{.owner = *options_.owner,
                             .lease = options_.lease,
                             .limit = limit,
                             .max_bytes = options_.buffer_bytes,
                             .topics = plan.topics,
                             .worker = options_.worker_name};
  const TimePoint lease_until = clock_.now() + options_.lease;
  ClaimResult claimed = store_.claim(request);
  std::size_t bytes = 0;
  for (const ClaimedMessage& message : claimed) bytes += bytes_of(message);
  const bool has_cleared_away = claimed.reaped.total() > 0;
  batch.is_full |= claimed.size() == limit || bytes > options_.buffer_bytes / 2 || has_cleared_away;
  take_in(std::move(claimed.messages), lease_until, batch);
}

void PendingRun::take_in(std::vector<ClaimedMessage> messages, TimePoint lease_until,
                         Batch& batch) {
  std::vector<ClaimedMessage> fresh;
  std::vector<ClaimedMessage> again;
  fresh.reserve(messages.size());
  for (ClaimedMessage& message : messages) {
    const bool is_new = taken_.insert(message.message.key).second;
    (is_new ? fresh : again).push_back(std::move(message));
  }
  if (!again.empty()) release(again);
  batch.has_come_again |= !again.empty();
  const auto frees_others = [](const ClaimedMessage& message) {
    return message.message.partition_key.has_value();
  };
  batch.frees_others |= std::ranges::any_of(fresh, frees_others);
  batch.messages += fresh.size();
  left_ -= fresh.size();
  admission_.take_in(table_, origin_, std::move(fresh), lease_until);
}

// Should it fail, their leases lapse.
void PendingRun::release(const std::vector<ClaimedMessage>& messages) try {
  std::vector<Settlement> settlements;
  settlements.reserve(messages.size());
  for (const ClaimedMessage& message : messages) {
    settlements.push_back({delivery_of(message), Release{}});
  }
  store_.settle(settlements);
} catch (const std::exception& failure) {
  logger_.log(LogLevel::warning, "messages not given back, their leases will lapse",
              {{"store", options_.name}, {"reason", failure.what()}});
}

void PendingRun::handle() {
  record();  // of those that nobody handles
  while (counters_.given_up == 0 && !stop_.stop_requested() && worker_.run_next(0)) record();
  while (dispatcher::InFlight* message = ready_.try_pop()) worker_.give_back(*message);
  record();
  while (table_.size() > 0) {  // handlers that hold no thread
    if (stop_.stop_requested()) (void)worker_.release_uncompleted();
    verdicts_.wait(kVerdicts);
    record();
  }
}

void PendingRun::record() {
  const SteadyTime give_up_at = clock_.steady() + options_.lease;
  for (SteadyTime next = settler_.step(); next != dispatcher::Settler::kNothingLeft;
       next = settler_.step()) {
    if (clock_.steady() >= give_up_at) settler_.stop_repeating();
    detail::pause_until(clock_, std::min(next, give_up_at));
  }
}

DispatchedPending PendingRun::result() const {
  DispatchedPending result{.handled = counters_.handled,
                           .retried = counters_.retried,
                           .dead = counters_.dead,
                           .released = counters_.released,
                           .superseded = counters_.superseded};
  result.unsettled = taken_.size() - result.total();
  return result;
}

}  // namespace

DispatchedPending dispatch_pending(QueueStore& queue, const Handlers& handlers, std::size_t limit,
                                   const DispatcherOptions& options,
                                   const Surroundings& surroundings, const std::stop_token& stop) {
  return PendingRun(queue, handlers, limit, options, surroundings, stop).run();
}

DispatchedPending dispatch_pending(QueueStore& outbox, const Publishers& publishers,
                                   std::size_t limit, const DispatcherOptions& options,
                                   const Surroundings& surroundings, const std::stop_token& stop) {
  return dispatch_pending(outbox, publishers.handlers(), limit, dispatcher::for_outbox(options),
                          surroundings, stop);
}

}  // namespace oncebox
