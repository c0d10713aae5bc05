#include "worker_pool.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "settler.hpp"

namespace oncebox::dispatcher {

namespace {

/// Whether the message may be dead by it. The store knows, which also looks at its age.
bool may_be_its_end(const Verdict& verdict, const MessageHistory& history) noexcept {
  if (const auto* abandon = std::get_if<Abandon>(&verdict)) {
    return !abandon->limit || history.attempt + 1 >= abandon->limit->max_attempts;
  }
  return std::holds_alternative<Fail>(verdict);
}

using Stage = InFlight::Stage;

std::uint64_t nanoseconds_between(SteadyTime start, SteadyTime end) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(end - start).count());
}

}  // namespace

WorkerPool::WorkerPool(const Parts& parts, std::size_t workers) : parts_(parts) {
  workers_.reserve(workers);
  for (std::size_t i = 0; i < workers; ++i) workers_.push_back(std::make_unique<Worker>());
}

std::vector<std::thread::id> WorkerPool::start() {
  std::vector<std::thread::id> ids;
  ids.reserve(workers_.size());
  threads_.reserve(workers_.size());
  for (const auto& worker : workers_) {
    ids.push_back(threads_.emplace_back([this, &self = *worker] { run(self); }).get_id());
  }
  return ids;
}

void WorkerPool::join() noexcept { threads_.clear(); }

bool WorkerPool::run_next(std::size_t worker) {
  InFlight* const message = parts_.ready.try_pop();
  if (message != nullptr) handle(*workers_[worker], *message);
  return message != nullptr;
}

void WorkerPool::run(Worker& worker) {
  for (;;) {
    InFlight* message = parts_.ready.try_pop();
    if (message != nullptr) {
      worker.hits.fetch_add(1, std::memory_order_relaxed);
    } else {
      worker.misses.fetch_add(1, std::memory_order_relaxed);
      message = parts_.ready.pop([this] { parts_.room.on_idle(); });
      if (message == nullptr) return;
    }
    handle(worker, *message);
  }
}

void WorkerPool::handle(Worker& worker, InFlight& message) {
  parts_.room.on_room();
  const TimePoint now = parts_.clock.now();
  // Another process may have it by now. If none has, it is soon claimed again.
  const bool lapsed = message.lease_until.load(std::memory_order_relaxed) <= now;
  std::optional<std::stop_token> stop;
  if (!lapsed) stop = begin(worker, message);
  if (!stop) return give_back(message);

  const ClaimedMessage& claimed = *message.claimed;
  if (message.route->begin(now)) parts_.room.on_limit_eased();
  const Duration waited = std::max(now - claimed.eligible_at, Duration::zero());
  worker.latency_ms.record(static_cast<std::uint64_t>(waited.count()));
  const Origin& origin = *message.origin;
  origin.observer.on_handler_start(claimed, waited);

  HandlerContext context(claimed, {.stop = std::move(*stop),
                                   .lease_lost = &message.lease_lost,
                                   .store = origin.store,
                                   .is_last_attempt = parts_.calls.is_last_attempt(claimed)});
  const SteadyTime started = parts_.clock.steady();
  HandlerCalls::Answer answer = call(message, context);
  const std::uint64_t took = nanoseconds_between(started, parts_.clock.steady());

  worker.duration_ns.record(took);
  origin.observer.on_handler_end(claimed, answer.verdict, std::chrono::nanoseconds(took));
  end(worker, message, std::move(answer));
}

HandlerCalls::Answer WorkerPool::call(const InFlight& message, HandlerContext& context) const {
  const Route& route = *message.route;
  if (TransactionalHandler* const handler = route.transactional_handler()) {
    return parts_.calls.call(*handler, message.origin->transactions, context);
  }
  return parts_.calls.call(*route.handler(), context);
}

// A thread that interrupts handlers says so, in `interrupted_` or `lease_lost`, before it takes the
// worker's lock. So it either finds the handler running, or is seen here.
std::optional<std::stop_token> WorkerPool::begin(Worker& worker, InFlight& message) {
  const detail::Lock lock(worker.mutex);
  if (interrupted_ || message.lease_lost) return std::nullopt;
  if (worker.stop_is_spent) {
    try {
      worker.stop = std::stop_source();
    } catch (const std::bad_alloc&) {
      return std::nullopt;  // the message is given back
    }
    worker.stop_is_spent = false;
  }
  worker.current = &message;
  message.stage = Stage::running;
  return worker.stop.get_token();
}

void WorkerPool::end(Worker& worker, InFlight& message, HandlerCalls::Answer answer) {
  {
    const detail::Lock lock(worker.mutex);
    worker.current = nullptr;
    message.stage = Stage::finished;
  }
  // A dead one is shown whole to the observer when its death is recorded.
  if (!may_be_its_end(answer.verdict, message.claimed->history)) {
    // Exchanged, because assigning an empty text keeps the memory of the old one.
    std::exchange(message.claimed->message.payload, {});
    std::exchange(message.claimed->message.headers, {});
    parts_.room.on_payload_freed(std::exchange(message.bytes, 0));
  }
  message.verdict = std::move(answer.verdict);
  message.is_recorded = answer.is_recorded;
  message.may_be_recorded = answer.may_be_recorded;
  const bool room_was_wanted = message.route->end();
  submit(message);
  if (room_was_wanted) parts_.room.on_limit_eased();
  parts_.room.on_room();
}

void WorkerPool::give_back(InFlight& message) {
  const bool room_was_wanted = message.route->give_back(parts_.clock.now());
  // It has left the buffer. Said before the end: after it the dispatcher may be gone.
  parts_.room.on_room();
  if (room_was_wanted) parts_.room.on_limit_eased();
  finish(message, Release{});
}

void WorkerPool::finish(InFlight& message, Verdict verdict) {
  message.stage = Stage::finished;
  message.verdict = std::move(verdict);
  submit(message);
}

// Once it is submitted its store may be let go.
void WorkerPool::submit(InFlight& message) {
  const std::shared_ptr<void> whole = message.origin->whole.lock();
  message.origin->settler.submit(message);
}

std::optional<std::stop_source> WorkerPool::take_stop_source(Worker& worker,
                                                             const Renewal* delivery) {
  const detail::Lock lock(worker.mutex);
  if (worker.current == nullptr || worker.stop_is_spent) return std::nullopt;
  // The handler whose lease is lost may have ended, and its `InFlight` be that of another message.
  const bool meant =
      delivery == nullptr || (worker.current == delivery->message && worker.current->lease_lost);
  if (!meant) return std::nullopt;
  worker.stop_is_spent = true;
  return worker.stop;
}

void WorkerPool::interrupt(const Renewal& delivery) {
  for (const auto& worker : workers_) {
    // Requested without the lock: it runs what the handler has registered.
    auto source = take_stop_source(*worker, &delivery);
    if (source) source->request_stop();
  }
}

void WorkerPool::interrupt_all() {
  interrupted_ = true;
  for (const auto& worker : workers_) {
    auto source = take_stop_source(*worker, nullptr);
    if (source) source->request_stop();
  }
}

std::size_t WorkerPool::running() const {
  std::size_t running = 0;
  for (const auto& worker : workers_) {
    const detail::Lock lock(worker->mutex);
    if (worker->current != nullptr) ++running;
  }
  return running;
}

void WorkerPool::add_to(RunningStats& stats) const {
  Histogram latency_ms;
  Histogram duration_ns;
  for (const auto& worker : workers_) {
    latency_ms.add(worker->latency_ms);
    duration_ns.add(worker->duration_ns);
    stats.prefetch_hits += worker->hits;
    stats.prefetch_misses += worker->misses;
  }
  stats.running = running();
  stats.delivery_latency_ms = latency_ms.distribution();
  stats.handler_duration_ns = duration_ns.distribution();
}

}  // namespace oncebox::dispatcher
