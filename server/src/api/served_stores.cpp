#include "api/served_stores.hpp"

#include <string>

#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

/// A queue that tells of work is still looked at now and then, for what it could not tell.
constexpr Duration kPollOfNotifying = std::chrono::seconds{5};

void let_claims_wait(ServedQueue& queue, const ApiParts& parts, WaitingPlaces& places) {
  const bool notifies = queue.store.store().capabilities().notifies;
  queue.claims = std::make_shared<WaitingClaims>(
      WaitingClaims::Parts{queue.queue, queue.paused, parts.calls, parts.timers, places,
                           parts.metrics, parts.logger, parts.clock},
      WaitingClaims::Settings{.name = queue.store.name() + "/" + std::string(queue.name),
                              .poll = notifies ? kPollOfNotifying : defaults::kPollInterval});
}

}  // namespace

ServedStores::ServedStores(HostedStores& stores, const ApiParts& parts)
    : places_(parts.options.limits.max_waiting_claims) {
  for (const auto& hosted : stores) {
    Store& store = hosted->store();
    const std::size_t max_payload_bytes = store.capabilities().max_payload_bytes;
    stores_.push_back(std::unique_ptr<ServedStore>(
        new ServedStore{.store = *hosted,
                        .inbox = {.store = *hosted,
                                  .name = "inbox",
                                  .queue = hosted->inbox().queue(),
                                  .operations = store.inbox_operator(),
                                  .singles = &hosted->inbox(),
                                  .max_payload_bytes = max_payload_bytes},
                        .outbox = {.store = *hosted,
                                   .name = "outbox",
                                   .queue = hosted->outbox(),
                                   .operations = store.outbox_operator(),
                                   .singles = nullptr,
                                   .max_payload_bytes = max_payload_bytes}}));
    ServedStore& served = *stores_.back();
    for (const std::string& topic : parts.options.paused_topics) served.inbox.paused.pause(topic);
    let_claims_wait(served.inbox, parts, places_);
    let_claims_wait(served.outbox, parts, places_);
  }
}

ServedStore& ServedStores::find(std::string_view name) {
  if (name.empty()) return *stores_.front();
  for (const auto& store : stores_) {
    if (store->store.name() == name) return *store;
  }
  throw Error(ErrorCode::not_found, "there is no store of this name");
}

void ServedStores::listen() {
  for (const auto& store : stores_) {
    store->inbox.queue.listen(store->inbox.claims);
    store->outbox.queue.listen(store->outbox.claims);
  }
}

void ServedStores::drain() noexcept {
  for (const auto& store : stores_) {
    store->inbox.claims->drain();
    store->outbox.claims->drain();
  }
}

void ServedStores::close() noexcept {
  for (const auto& store : stores_) {
    store->inbox.claims->close();
    store->outbox.claims->close();
  }
}

}  // namespace oncebox::server
