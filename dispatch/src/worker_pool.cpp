#include "worker_pool.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include "middleware.hpp"
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

/// Then another process may have it by now. If none has, it is soon claimed again.
bool has_lapsed(const InFlight& message, TimePoint now) noexcept {
  return message.lease_until.load(std::memory_order_relaxed) <= now;
}

detail::OpenSpan begin_span(InFlight& message, const Clock& clock) noexcept {
  return detail::OpenSpan::of_message(
      message.origin->tracer, clock,
      message.route->publishes() ? SpanOperation::publish : SpanOperation::handle,
      message.claimed->message);
}

/// What a publisher that holds no thread has failed by.
std::exception_ptr failure_of_publisher(const std::exception_ptr& failure) noexcept {
  if (!failure) return failure;
  try {
    try {
      std::rethrow_exception(failure);
    } catch (const RetryAfter& asked) {
      return std::make_exception_ptr(RetryNotBefore(asked.delay(), asked.what()));
    }
  } catch (...) {
    return failure;  // another one, or there is no memory
  }
}

}  // namespace

WorkerPool::WorkerPool(const Parts& parts, std::size_t workers)
    : parts_(parts),
      async_(std::make_shared<AsyncCalls>(
          [this](const AsyncCallInFlight& call, InFlight& message,
                 const std::exception_ptr& failure) { end_async(call, message, failure); })) {
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
  if (message.route->batch_handler() != nullptr) return handle_batch(worker, message);
  const TimePoint now = parts_.clock.now();
  if (has_lapsed(message, now)) return give_back(message);
  if (message.route->async_handler() != nullptr) return start_async(worker, message);
  InFlight* const only = &message;
  std::optional<std::stop_token> stop = begin(worker, {&only, 1});
  if (!stop) return give_back(message);

  note_start(worker, message, now);
  HandlerContext context(*message.claimed, call_of(message, std::move(*stop)));
  const SteadyTime started = parts_.clock.steady();
  HandlerCalls::Answer answer = call(message, context);
  const std::chrono::nanoseconds took = parts_.clock.steady() - started;
  worker.duration_ns.record(static_cast<std::uint64_t>(took.count()));
  note_end(message, answer, took);
  end(worker);
  conclude(message, std::move(answer));
}

HandlerCall WorkerPool::call_of(const InFlight& message, std::stop_token stop) const {
  return {.stop = std::move(stop),
          .lease_lost = &message.lease_lost,
          .store = message.origin->store,
          .is_last_attempt = parts_.calls.is_last_attempt(*message.claimed)};
}

void WorkerPool::note_start(Worker& worker, InFlight& message, TimePoint now) {
  if (message.route->begin(now)) parts_.room.on_limit_eased();
  message.waited = std::max(now - message.claimed->eligible_at, Duration::zero());
  worker.latency_ms.record(static_cast<std::uint64_t>(message.waited.count()));
  message.handling = begin_span(message, parts_.clock);
  message.origin->observer.on_handler_start(*message.claimed, message.waited);
}

void WorkerPool::note_end(InFlight& message, const HandlerCalls::Answer& answer,
                          std::chrono::nanoseconds took) {
  message.origin->observer.on_handler_end(*message.claimed, answer.verdict, took);
  if (!answer.is_recorded) message.settling = message.handling.below(SpanOperation::settle);
  detail::end_with_verdict(message.handling, *message.claimed, answer.verdict, message.waited);
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
std::optional<std::stop_token> WorkerPool::begin(Worker& worker,
                                                 std::span<InFlight* const> messages) {
  const bool is_batch = messages.front()->route->batch_handler() != nullptr;
  const detail::Lock lock(worker.mutex);
  if (interrupted_ || (!is_batch && messages.front()->lease_lost)) return std::nullopt;
  if (worker.stop_is_spent) {
    try {
      worker.stop = std::stop_source();
    } catch (const std::bad_alloc&) {
      return std::nullopt;  // the message is given back
    }
    worker.stop_is_spent = false;
  }
  // The others of a batch go on when one of them is lost.
  worker.current = is_batch ? nullptr : messages.front();
  worker.running = messages.size();
  for (InFlight* message : messages) message->stage = Stage::running;
  return worker.stop.get_token();
}

void WorkerPool::end(Worker& worker) {
  const detail::Lock lock(worker.mutex);
  if (worker.current != nullptr) worker.current->stage = Stage::finished;
  worker.current = nullptr;
  worker.running = 0;
}

void WorkerPool::conclude(InFlight& message, HandlerCalls::Answer answer) {
  message.stage = Stage::finished;
  // A dead one is shown whole to the observer when its death is recorded.
  if (!may_be_its_end(answer.verdict, message.claimed->history)) {
    // Exchanged, because assigning an empty text keeps the memory of the old one.
    std::exchange(message.claimed->message.payload, {});
    std::exchange(message.claimed->message.headers, {});
    parts_.room.on_payload_freed(*message.origin, std::exchange(message.bytes, 0));
  }
  message.verdict = std::move(answer.verdict);
  message.is_recorded = answer.is_recorded;
  message.may_be_recorded = answer.may_be_recorded;
  const bool room_was_wanted = message.route->end();
  submit(message);
  if (room_was_wanted) parts_.room.on_limit_eased();
  parts_.room.on_room();
}

// Handlers of batches ---------------------------------------------------------------------------

void WorkerPool::handle_batch(Worker& worker, InFlight& first) {
  const TimePoint now = parts_.clock.now();
  const std::vector<InFlight*> messages = gather_batch(first, now);
  if (messages.empty()) return;
  std::optional<std::stop_token> stop = begin(worker, messages);
  if (!stop) {
    for (InFlight* message : messages) give_back(*message);
    return;
  }
  run_batch(worker, messages, now, *stop);
}

// What waits for the same handler, of the same store. Without memory, or what has lapsed, is given
// back.
std::vector<InFlight*> WorkerPool::gather_batch(InFlight& first, TimePoint now) {
  std::vector<InFlight*> messages;
  std::size_t room = first.route->max_batch();
  try {
    messages.reserve(room);
    const auto fits = [&](const InFlight& message) {
      const bool is_alike = message.route == first.route && message.origin == first.origin;
      if (room == 0 || !is_alike) return false;
      --room;
      return true;
    };
    messages.push_back(&first);
    --room;
    for (InFlight* message : parts_.ready.extract(fits)) messages.push_back(message);
  } catch (const std::bad_alloc&) {
    if (messages.empty()) {
      give_back(first);
      return messages;
    }
  }
  parts_.room.on_room();
  std::erase_if(messages, [&](InFlight* message) {
    const bool is_lost = has_lapsed(*message, now) || message->lease_lost;
    if (is_lost) give_back(*message);
    return is_lost;
  });
  return messages;
}

void WorkerPool::run_batch(Worker& worker, const std::vector<InFlight*>& messages, TimePoint now,
                           const std::stop_token& stop) {
  std::vector<BatchMessage> batch;
  std::vector<HandlerCalls::Answer> answers;
  try {
    batch.reserve(messages.size());
    answers.resize(messages.size(), {Release{}});
    for (InFlight* message : messages) {
      batch.emplace_back(HandlerContext(*message->claimed, call_of(*message, stop)));
    }
  } catch (const std::bad_alloc&) {
    end(worker);
    for (InFlight* message : messages) give_back(*message);
    return;
  }
  for (InFlight* message : messages) note_start(worker, *message, now);
  const SteadyTime started = parts_.clock.steady();
  parts_.calls.call(*messages.front()->route->batch_handler(), batch, answers);
  const std::chrono::nanoseconds took = parts_.clock.steady() - started;
  worker.duration_ns.record(static_cast<std::uint64_t>(took.count()));
  for (std::size_t i = 0; i < messages.size(); ++i) note_end(*messages[i], answers[i], took);
  end(worker);
  for (std::size_t i = 0; i < messages.size(); ++i) conclude(*messages[i], std::move(answers[i]));
}

// Handlers without a thread ---------------------------------------------------------------------

void WorkerPool::start_async(Worker& worker, InFlight& message) {
  note_start(worker, message, parts_.clock.now());
  const Route& route = *message.route;
  AsyncCalls::CallPtr call;
  try {
    const bool is_last = parts_.calls.is_last_attempt(*message.claimed);
    call = async_->begin(message, is_last, parts_.clock.steady());
  } catch (const std::bad_alloc&) {
    call = nullptr;  // the message is released
  }
  if (call == nullptr) {
    note_end(message, {Release{}}, {});
    return conclude(message, {Release{}});
  }
  // From here on the message may be over at any time.
  std::exception_ptr failure;
  try {
    parts_.calls.log_call(call->context());
    start_with(route.around_async(), *route.async_handler(), call);
  } catch (...) {
    failure = std::current_exception();
  }
  async_->started(*call, failure);
}

void WorkerPool::end_async(const AsyncCallInFlight& call, InFlight& message,
                           const std::exception_ptr& failure) {
  HandlerCalls::Answer answer = parts_.calls.conclude(
      call.context(), message.route->publishes() ? failure_of_publisher(failure) : failure);
  const std::chrono::nanoseconds took = parts_.clock.steady() - call.began_at();
  {
    const detail::Lock lock(async_mutex_);
    async_duration_ns_.record(static_cast<std::uint64_t>(took.count()));
  }
  note_end(message, answer, took);
  conclude(message, std::move(answer));
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
  if (worker.running == 0 || worker.stop_is_spent) return std::nullopt;
  // The handler whose lease is lost may have ended, and its `InFlight` be that of another message.
  const bool meant =
      delivery == nullptr || (worker.current != nullptr && worker.current == delivery->message &&
                              worker.current->lease_lost);
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
  async_->interrupt(delivery);
}

void WorkerPool::interrupt_all() {
  interrupted_ = true;
  for (const auto& worker : workers_) {
    auto source = take_stop_source(*worker, nullptr);
    if (source) source->request_stop();
  }
  async_->interrupt_all();
}

std::size_t WorkerPool::running() const {
  std::size_t running = async_->running();
  for (const auto& worker : workers_) {
    const detail::Lock lock(worker->mutex);
    running += worker->running;
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
  {
    const detail::Lock lock(async_mutex_);
    duration_ns.add(async_duration_ns_);
  }
  stats.running = running();
  stats.delivery_latency_ms = latency_ms.distribution();
  stats.handler_duration_ns = duration_ns.distribution();
}

}  // namespace oncebox::dispatcher
