#include "oncebox/driver/observed_queue_store.hpp"

#include <vector>

#include "oncebox/detail/open_span.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/message_line.hpp"

namespace oncebox {

namespace {

bool brought_something_new(EnqueueStatus status) {
  return status == EnqueueStatus::accepted || status == EnqueueStatus::updated ||
         status == EnqueueStatus::superseding || status == EnqueueStatus::revived;
}

bool is_worth_a_line(const SettleOutcome& outcome) {
  return outcome.death || outcome != SettleStatus::settled;
}

detail::KeyLine line_of(const Settlement& settlement, const SettleOutcome& outcome) {
  const MessageKey& key = settlement.delivery.key;
  if (outcome.death) return detail::death_line(key, to_string(*outcome.death));
  return {LogLevel::info, "delivery not settled", key, {"outcome", to_string(outcome.status)}};
}

}  // namespace

ObservedQueueStore::ObservedQueueStore(QueueStore& below, std::string store_name,
                                       const Surroundings& surroundings,
                                       DeliveryLines delivery_lines)
    : below_(below),
      store_name_(std::move(store_name)),
      logger_(surroundings.logger),
      observer_(surroundings.observer),
      clock_(surroundings.clock),
      delivery_lines_(delivery_lines),
      tracer_(surroundings.tracer) {}

template <class Call>
auto ObservedQueueStore::timed(std::string_view name, std::size_t items, Call call) {
  const SteadyTime started = clock_.steady();
  const auto took = [&] { return clock_.steady() - started; };
  try {
    auto answer = call();
    observer_.on_store_call(name, items, took(), false);
    return answer;
  } catch (const Error& error) {
    observer_.on_store_call(name, items, took(), true);
    const bool was_wanted = error.code() == ErrorCode::cancelled;
    logger_.log(was_wanted ? LogLevel::info : LogLevel::error, "store call failed",
                {{"store", store_name_},
                 {"call", name},
                 {"items", items},
                 {"code", to_string(error.code())},
                 {"reason", error.what()}});
    throw;
  } catch (...) {
    observer_.on_store_call(name, items, took(), true);
    throw;
  }
}

std::vector<EnqueueOutcome> ObservedQueueStore::do_enqueue(std::span<const Message> messages,
                                                           const EnqueueOptions& options) {
  auto outcomes =
      timed("enqueue", messages.size(), [&] { return below_.enqueue(messages, options); });
  observe_enqueue(messages, outcomes);
  return outcomes;
}

std::vector<EnqueueOutcome> ObservedQueueStore::enqueue_with(Transaction& transaction,
                                                             QueueKind queue,
                                                             std::span<const Message> messages,
                                                             const EnqueueOptions& options) {
  auto outcomes = timed("enqueue", messages.size(),
                        [&] { return transaction.enqueue(queue, messages, options); });
  observe_enqueue(messages, outcomes);
  return outcomes;
}

void ObservedQueueStore::observe_enqueue(std::span<const Message> messages,
                                         std::span<const EnqueueOutcome> outcomes) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const EnqueueOutcome& outcome = outcomes[i];
    observer_.on_enqueue(message, outcome);
    const bool fresh = brought_something_new(outcome.status);
    const std::string_view text = fresh ? "message enqueued" : "message not enqueued";
    detail::write_line(logger_, {LogLevel::info, text, store_name_, message},
                       {{"outcome", to_string(outcome.status)}});
    if (outcome.hash_mismatch) {
      const std::string_view differs = "content hash differs from the one stored before";
      detail::write_line(logger_, {LogLevel::warning, differs, store_name_, message},
                         {{"outcome", to_string(outcome.status)}});
    }
    if (outcome.quarantined_as && outcome.newly_dead) {
      detail::write_line(
          logger_,
          {LogLevel::warning, "message is dead", store_name_, message, &*outcome.quarantined_as},
          {{"reason", "quarantined"}});
    }
  }
}

std::vector<ObserveOutcome> ObservedQueueStore::do_observe(
    std::span<const Observation> observations) {
  auto outcomes =
      timed("observe", observations.size(), [&] { return below_.observe(observations); });
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const MessageKey& key = observations[i].key;
    const ObserveOutcome& outcome = outcomes[i];
    observer_.on_observe(key, outcome);
    logger_.log(LogLevel::debug, "message observed",
                {{"store", store_name_},
                 {"source", key.source},
                 {"message_id", key.message_id},
                 {"state", to_string(outcome.state)},
                 {"already_processed", outcome.already_processed()}});
    if (outcome.hash_mismatch) {
      logger_.log(LogLevel::warning, "content hash differs from the one stored before",
                  {{"store", store_name_}, {"source", key.source}, {"message_id", key.message_id}});
    }
  }
  return outcomes;
}

std::vector<MarkOutcome> ObservedQueueStore::do_mark(std::span<const Mark> marks) {
  auto outcomes = timed("mark", marks.size(), [&] { return below_.mark(marks); });
  std::vector<detail::KeyLine> lines;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    observer_.on_mark(marks[i], outcomes[i]);
    const bool is_new = outcomes[i] == MarkOutcome::marked;
    if (is_new && marks[i].as == MarkAs::dead) {
      detail::add_line(lines, detail::death_line(marks[i].key, "marked"));
    }
  }
  detail::write_lines(logger_, store_name_, lines, &below_);
  return outcomes;
}

ClaimResult ObservedQueueStore::do_claim(const ClaimRequest& request) {
  const SteadyTime began_at = tracer_ != nullptr ? clock_.steady() : SteadyTime{};
  ClaimResult claimed = timed("claim", request.limit, [&] { return below_.claim(request); });
  if (tracer_ != nullptr) {
    detail::trace_claim(*tracer_, store_name_, claimed.messages, began_at, clock_.steady());
  }
  if (claimed.reaped.total() > 0) observe_reap(claimed.reaped);
  observe_claim(claimed, request);
  return claimed;
}

void ObservedQueueStore::observe_claim(std::span<const ClaimedMessage> claimed,
                                       const ClaimRequest& request) {
  observer_.on_claim(claimed.size(), request.limit);
  const TimePoint now = clock_.now();
  for (const ClaimedMessage& message : claimed) {
    observer_.on_delivery(message, now - message.eligible_at);
  }
  if (!logger_.enabled(LogLevel::debug)) return;
  logger_.log(LogLevel::debug, "messages claimed",
              {{"store", store_name_},
               {"worker", worker_of(request)},
               {"owner", request.owner},
               {"count", claimed.size()}});
}

std::vector<SettleOutcome> ObservedQueueStore::do_settle(std::span<const Settlement> settlements) {
  auto outcomes = timed("settle", settlements.size(), [&] { return below_.settle(settlements); });
  observe_settlements(settlements, outcomes);
  return outcomes;
}

// Not timed as a call of the store: most of it is the handler's.
SettleOutcome ObservedQueueStore::acknowledge_with(const Delivery& delivery, const Work& work) {
  const SettleOutcome outcome = below_.transactional()->acknowledge_with(delivery, work);
  const Settlement settlement{delivery, Ack{}};
  observe_settlements({&settlement, 1}, {&outcome, 1});
  return outcome;
}

void ObservedQueueStore::observe_settlements(std::span<const Settlement> settlements,
                                             std::span<const SettleOutcome> outcomes) noexcept {
  for (std::size_t i = 0; i < settlements.size(); ++i) {
    observer_.on_settle(settlements[i], outcomes[i]);
  }
  std::vector<detail::KeyLine> lines;
  for (std::size_t i = 0; i < settlements.size(); ++i) {
    if (is_worth_a_line(outcomes[i])) {
      detail::add_line(lines, line_of(settlements[i], outcomes[i]));
    }
  }
  const bool looks_up = delivery_lines_ == DeliveryLines::looked_up;
  detail::write_lines(logger_, store_name_, lines, looks_up ? &below_ : nullptr);
}

std::vector<ExtendOutcome> ObservedQueueStore::do_extend(
    std::span<const LeaseExtension> extensions) {
  return timed("extend", extensions.size(), [&] { return below_.extend(extensions); });
}

ReapResult ObservedQueueStore::do_reap(const ReapRequest& request) {
  ReapResult result = timed("reap", request.limit, [&] { return below_.reap(request); });
  observe_reap(result);
  return result;
}

void ObservedQueueStore::observe_reap(const ReapResult& result) {
  observer_.on_reap(result);
  const LogLevel level = result.total() > 0 ? LogLevel::info : LogLevel::debug;
  logger_.log(level, "leases reaped",
              {{"store", store_name_}, {"released", result.released}, {"buried", result.buried}});
  std::vector<detail::KeyLine> lines;
  for (const Death& death : result.deaths) {
    detail::add_line(lines, detail::death_line(death.key, death.cause, &death.topic));
  }
  detail::write_lines(logger_, store_name_, lines, &below_);
}

std::optional<TimePoint> ObservedQueueStore::do_next_due(const TopicSelection& topics) {
  return timed("next_due", 1, [&] { return below_.next_due(topics); });
}

void ObservedQueueStore::do_listen(std::weak_ptr<WorkListener> listener) {
  below_.listen(std::move(listener));
}

void ObservedQueueStore::do_offer(const std::shared_ptr<ClaimOffer>& offer) {
  // By reference: the offer has its observers for as long as it lives.
  offer->observe([this, &request = offer->request()](std::span<const ClaimedMessage> claimed) {
    observe_claim(claimed, request);
  });
  below_.offer(offer);
}

std::vector<std::optional<MessageRecord>> ObservedQueueStore::do_find(
    std::span<const MessageKey> keys, const FindOptions& options) {
  return timed("find", keys.size(), [&] { return below_.find_some(keys, options); });
}

}  // namespace oncebox
