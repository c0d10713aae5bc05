#include "recording_queue.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "oncebox/error.hpp"

namespace oncebox::workers {

namespace {

const char* name_of(const Verdict& verdict) {
  constexpr std::array<const char*, std::variant_size_v<Verdict>> kNames{"ack", "abandon", "fail",
                                                                         "release"};
  return kNames.at(verdict.index());
}

Event event_of(EventKind kind, const Delivery& delivery) {
  return {.kind = kind,
          .id = delivery.key.message_id.str(),
          .delivery = static_cast<std::uint64_t>(delivery.number.value_or(DeliveryNumber{}))};
}

}  // namespace

std::vector<EnqueueOutcome> RecordingQueue::do_enqueue(std::span<const Message> messages,
                                                       const EnqueueOptions& options) {
  return below_.enqueue(messages, options);
}

std::vector<ObserveOutcome> RecordingQueue::do_observe(std::span<const Observation> observations) {
  return below_.observe(observations);
}

std::vector<MarkOutcome> RecordingQueue::do_mark(std::span<const Mark> marks) {
  return below_.mark(marks);
}

std::vector<ClaimedMessage> RecordingQueue::do_claim(const ClaimRequest& request) {
  std::vector<ClaimedMessage> claimed;
  try {
    claimed = below_.claim(request);
  } catch (const Error& error) {
    ledger_.add({.kind = EventKind::unclaimed, .word = std::string(to_string(error.code()))});
    throw;
  }
  note(claimed, request.lease);
  return claimed;
}

void RecordingQueue::note(std::span<const ClaimedMessage> claimed, Duration lease) {
  for (const ClaimedMessage& message : claimed) {
    ledger_.add({.kind = EventKind::claimed,
                 .id = message.message.key.message_id.str(),
                 .delivery = static_cast<std::uint64_t>(message.delivery),
                 .locked_until = message.locked_until,
                 .lease = lease,
                 .deliveries = message.history.deliveries,
                 .attempt = message.history.attempt});
  }
}

std::vector<SettleOutcome> RecordingQueue::do_settle(std::span<const Settlement> settlements) {
  for (const Settlement& settlement : settlements) {
    Event event = event_of(EventKind::settling, settlement.delivery);
    event.word = name_of(settlement.verdict);
    ledger_.add(std::move(event));
  }
  const auto note = [this](const Settlement& settlement, std::string_view word) {
    Event event = event_of(EventKind::settled, settlement.delivery);
    event.word = word;
    ledger_.add(std::move(event));
  };
  try {
    std::vector<SettleOutcome> outcomes = below_.settle(settlements);
    for (std::size_t i = 0; i < settlements.size(); ++i) {
      note(settlements[i], to_string(outcomes[i]));
    }
    return outcomes;
  } catch (const Error& error) {
    for (const Settlement& settlement : settlements) note(settlement, to_string(error.code()));
    throw;
  }
}

std::vector<ExtendOutcome> RecordingQueue::do_extend(std::span<const LeaseExtension> extensions) {
  std::vector<ExtendOutcome> outcomes = below_.extend(extensions);
  for (std::size_t i = 0; i < extensions.size(); ++i) {
    if (!outcomes[i].locked_until) continue;
    Event event = event_of(EventKind::extended, extensions[i].delivery);
    event.locked_until = *outcomes[i].locked_until;
    ledger_.add(std::move(event));
  }
  return outcomes;
}

ReapResult RecordingQueue::do_reap(const ReapRequest& request) { return below_.reap(request); }

std::optional<TimePoint> RecordingQueue::do_next_due(const TopicSelection& topics) {
  return below_.next_due(topics);
}

void RecordingQueue::do_listen(std::weak_ptr<WorkListener> listener) {
  below_.listen(std::move(listener));
}

void RecordingQueue::do_offer(const std::shared_ptr<ClaimOffer>& offer) {
  offer->observe([this, lease = offer->request().lease](std::span<const ClaimedMessage> claimed) {
    note(claimed, lease);
  });
  below_.offer(offer);
}

std::vector<std::optional<MessageRecord>> RecordingQueue::do_find(
    std::span<const MessageKey> keys) {
  return below_.find(keys);
}

}  // namespace oncebox::workers
