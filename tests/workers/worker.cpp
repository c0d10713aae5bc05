#include "worker.hpp"

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "oncebox/error.hpp"
#include "workload.hpp"

namespace oncebox::workers {

namespace {

void conclude(const ClaimedMessage& claimed) {
  const Plan plan = plan_of(claimed.message.topic);
  if (plan == Plan::fails_for_good) throw PermanentFailure("for good");
  const bool stumbles = plan == Plan::stumbles && claimed.history.attempt == 0;
  if (plan == Plan::fails || stumbles) throw std::runtime_error("for now");
}

}  // namespace

void die() {
  std::raise(SIGKILL);
  std::abort();
}

void take_time(std::chrono::microseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  if (stop.stop_requested()) throw std::runtime_error("stopped");
}

Worker::Worker(Store& store, Ledger& ledger, const WorkerOptions& options)
    : store_(store),
      ledger_(ledger),
      options_(options),
      queue_(store.inbox(), ledger),
      inbox_(store, {}, {logger_, progress_, clock_}),
      dispatcher_(queue_, handlers(), dispatcher_options(options.lease),
                  {logger_, progress_, clock_}) {}

EnqueueStatus Worker::offer(const std::string& id) { return offer(message_of(id, clock_.now())); }

EnqueueStatus Worker::offer(const Message& message) {
  const std::string& id = message.key.message_id.str();
  ledger_.add({.kind = EventKind::offered, .id = id});
  try {
    const EnqueueOutcome outcome = inbox_.enqueue(message);
    const std::string word(to_string(outcome.status));
    ledger_.add({.kind = EventKind::answered, .id = id, .word = word});
    return outcome.status;
  } catch (const Error& error) {
    const std::string word(to_string(error.code()));
    ledger_.add({.kind = EventKind::refused, .id = id, .word = word});
    throw;
  }
}

std::size_t Worker::unfinished() { return store_.inbox_operator().stats().total().unfinished(); }

std::optional<std::size_t> Worker::perhaps_unfinished() {
  try {
    return unfinished();
  } catch (const Error& error) {
    if (!error.retryable()) throw;
    return std::nullopt;
  }
}

Handlers Worker::handlers() {
  Handlers handlers;
  handlers.on("*", [this](const ClaimedMessage& claimed, HandlerContext& context) {
    const std::string& id = claimed.message.key.message_id.str();
    const auto delivery = static_cast<std::uint64_t>(claimed.delivery);
    ledger_.add({.kind = EventKind::begun, .id = id, .delivery = delivery});
    work_on(claimed, context.stop_token());
    ledger_.add({.kind = EventKind::ended, .id = id, .delivery = delivery});
    conclude(claimed);
  });
  return handlers;
}

void Worker::work_on(const ClaimedMessage& claimed, const std::stop_token& stop) {
  const Plan plan = plan_of(claimed.message.topic);
  if (plan == Plan::kills_its_worker) {
    // The others shall not share its fate.
    progress_.wait_until([this] { return unfinished() <= 1; });
    die();
  }
  constexpr std::chrono::microseconds kQuick{500};
  take_time(plan == Plan::succeeds_slowly ? options_.slow_work : kQuick, stop);
}

}  // namespace oncebox::workers
