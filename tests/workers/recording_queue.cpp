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

ClaimResult RecordingQueue::do_claim(const ClaimRequest& request) {
  ClaimResult claimed;
  try {
    claimed = below().claim(request);
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
    std::vector<SettleOutcome> outcomes = below().settle(settlements);
    for (std::size_t i = 0; i < settlements.size(); ++i) {
      note(settlements[i], to_string(outcomes[i].status));
    }
    return outcomes;
  } catch (const Error& error) {
    for (const Settlement& settlement : settlements) note(settlement, to_string(error.code()));
    throw;
  }
}

std::vector<ExtendOutcome> RecordingQueue::do_extend(std::span<const LeaseExtension> extensions) {
  std::vector<ExtendOutcome> outcomes = below().extend(extensions);
  for (std::size_t i = 0; i < extensions.size(); ++i) {
    if (!outcomes[i].locked_until) continue;
    Event event = event_of(EventKind::extended, extensions[i].delivery);
    event.locked_until = *outcomes[i].locked_until;
    ledger_.add(std::move(event));
  }
  return outcomes;
}

void RecordingQueue::do_offer(const std::shared_ptr<ClaimOffer>& offer) {
  offer->observe([this, lease = offer->request().lease](std::span<const ClaimedMessage> claimed) {
    note(claimed, lease);
  });
  below().offer(offer);
}

}  // namespace oncebox::workers
