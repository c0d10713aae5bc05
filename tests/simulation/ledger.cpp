#include "ledger.hpp"

#include <algorithm>
#include <variant>

namespace oncebox::simulation {

namespace {

constexpr const char* kVerdicts[] = {"ack", "abandon", "fail", "release"};

}  // namespace

Ledger::Entry* Ledger::find(const std::string& store, const MessageKey& key) {
  const auto found = entries_.find({store, key});
  if (found != entries_.end()) return &found->second;
  world_.violate("{} handed out {}, which was never enqueued", store, key.message_id.str());
  return nullptr;
}

void Ledger::on_enqueued(const std::string& store, const MessageKey& key) {
  entries_.try_emplace({store, key});
}

void Ledger::on_claimed(const std::string& store, std::span<const ClaimedMessage> claimed) {
  const TimePoint now = world_.clock().now();
  for (const ClaimedMessage& one : claimed) {
    world_.note("{} hands out {} as {}", store, one.message.key.message_id.str(),
                static_cast<std::uint64_t>(one.delivery));
    Entry* const entry = find(store, one.message.key);
    if (entry == nullptr) return;
    if (entry->holder && entry->holder->until > now) {
      world_.violate("{} of {} is held, and was handed out again", one.message.key.message_id.str(),
                     store);
    }
    entry->holder = {one.owner, one.delivery, one.locked_until};
  }
}

void Ledger::on_settled(const std::string& store, std::span<const Settlement> settlements,
                        std::span<const SettleOutcome> outcomes) {
  for (std::size_t i = 0; i < settlements.size(); ++i) {
    const Delivery& delivery = settlements[i].delivery;
    world_.note("{} settles {}: {}, {}", store, delivery.key.message_id.str(),
                kVerdicts[settlements[i].verdict.index()], to_string(outcomes[i].status));
    Entry* const entry = find(store, delivery.key);
    if (entry == nullptr) return;
    const bool holds = entry->holder && entry->holder->number == delivery.number;
    if (outcomes[i] == SettleStatus::lease_lost) {
      if (!holds) continue;
      if (entry->holder->until > world_.clock().now()) {
        world_.violate("{} of {} was taken from its holder", delivery.key.message_id.str(), store);
      }
      entry->holder.reset();  // somebody has reaped it
      continue;
    }
    if (!holds) {
      world_.violate("{} of {} was settled by one that did not hold it",
                     delivery.key.message_id.str(), store);
    }
    if (std::holds_alternative<Ack>(settlements[i].verdict) && !entry->was_handled_well) {
      world_.violate("{} of {} is done, and no handler ever handled it",
                     delivery.key.message_id.str(), store);
    }
    entry->holder.reset();
  }
}

void Ledger::on_extended(const std::string& store, std::span<const LeaseExtension> extensions,
                         std::span<const ExtendOutcome> outcomes) {
  for (std::size_t i = 0; i < extensions.size(); ++i) {
    const Delivery& delivery = extensions[i].delivery;
    if (!outcomes[i].locked_until) continue;
    Entry* const entry = find(store, delivery.key);
    if (entry == nullptr) return;
    if (!entry->holder || entry->holder->number != delivery.number) {
      world_.violate("the lease of {} of {} was extended for one that did not hold it",
                     delivery.key.message_id.str(), store);
      return;
    }
    entry->holder->until = *outcomes[i].locked_until;
  }
}

// A handler of another process may still run when its lease has lapsed; one of the same process
// must not. And nobody begins with what another process holds.
void Ledger::on_handler_began(const std::string& store, const ClaimedMessage& claimed) {
  Entry* const entry = find(store, claimed.message.key);
  if (entry == nullptr) return;
  const std::string& id = claimed.message.key.message_id.str();
  world_.note("handler begins with {} of {}", id, store);
  if (!entry->handlers.insert(claimed.owner).second) {
    world_.violate("two handlers of one process run for {} of {}", id, store);
  }
  const bool holds = entry->holder && entry->holder->owner == claimed.owner &&
                     entry->holder->until > world_.clock().now();
  if (!holds) world_.violate("a handler began with {} of {} without a lease", id, store);
  ++running_[claimed.owner][claimed.message.topic.str()];
}

void Ledger::on_handler_ended(const std::string& store, const ClaimedMessage& claimed,
                              Handled how) {
  Entry* const entry = find(store, claimed.message.key);
  if (entry == nullptr) return;
  world_.note("handler ends with {} of {}", claimed.message.key.message_id.str(), store);
  entry->handlers.erase(claimed.owner);
  --running_[claimed.owner][claimed.message.topic.str()];
  if (how == Handled::well) entry->was_handled_well = true;
  if (entry->holder && entry->holder->number == claimed.delivery) entry->holder->is_handled = true;
}

std::size_t Ledger::running(const OwnerToken& owner, const Topic& topic) const {
  const auto topics = running_.find(owner);
  if (topics == running_.end()) return 0;
  const auto found = topics->second.find(topic.str());
  return found == topics->second.end() ? 0 : found->second;
}

std::size_t Ledger::running(const OwnerToken& owner) const {
  std::size_t all = 0;
  const auto topics = running_.find(owner);
  if (topics == running_.end()) return 0;
  for (const auto& [topic, count] : topics->second) all += count;
  return all;
}

bool Ledger::has_any(const std::string& store, const OwnerToken& owner) const {
  const TimePoint now = world_.clock().now();
  return std::ranges::any_of(entries_, [&](const auto& known) {
    const auto& [place, entry] = known;
    const bool holds = entry.holder && entry.holder->owner == owner && entry.holder->until > now;
    return place.first == store && (holds || entry.handlers.contains(owner));
  });
}

std::vector<MessageKey> Ledger::open_keys(const std::string& store) const {
  std::vector<MessageKey> keys;
  for (const auto& [place, entry] : entries_) {
    if (entry.is_open && place.first == store) keys.push_back(place.second);
  }
  return keys;
}

void Ledger::close(const std::string& store, const MessageKey& key) {
  entries_.at({store, key}).is_open = false;
}

bool Ledger::was_handled_well(const std::string& store, const MessageKey& key) const {
  return entries_.at({store, key}).was_handled_well;
}

std::vector<MessageKey> Ledger::unsettled(const std::string& store, const OwnerToken& owner) const {
  std::vector<MessageKey> keys;
  for (const auto& [place, entry] : entries_) {
    if (place.first != store || !entry.holder || entry.holder->owner != owner) continue;
    if (entry.holder->is_handled) keys.push_back(place.second);
  }
  return keys;
}

void Ledger::forget_unsettled(const std::string& store, const OwnerToken& owner) {
  for (auto& [place, entry] : entries_) {
    if (place.first != store || !entry.holder || entry.holder->owner != owner) continue;
    entry.holder->is_handled = false;
  }
}

}  // namespace oncebox::simulation
