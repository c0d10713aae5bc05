#include "backend.hpp"

#include <algorithm>
#include <utility>

#include "oncebox/error.hpp"

namespace oncebox::simulation {

namespace {

constexpr Duration kFinelyLate{3};
constexpr Duration kSlowlyLate{800};

/// What the work is that a call is part of; of each kind a store has one under way.
std::string_view kind_of(std::string_view call) {
  if (call == "settle") return "settle";
  if (call == "claim" || call == "next_due") return "claim";
  return "keep";
}

}  // namespace

Link::Link(World& world, std::string server, std::size_t most_calls, Planted planted)
    : world_(world), server_(std::move(server)), most_calls_(most_calls), planted_(planted) {}

void Link::set_weather(Weather::Kind kind) {
  if (kind == Weather::Kind::fine && weather_.kind != kind) {
    weather_.fine_since = world_.clock().steady();
  }
  weather_.kind = kind;
}

void Link::on_removed(const std::string& store) {
  State& state = stores_[store];
  state.is_removed = true;
  state.is_in_trouble = false;
}

void Link::count_trouble(bool counts) {
  counts_trouble_ = counts;
  for (auto& [store, state] : stores_) state.is_in_trouble = false;
}

// Half of the way of a call.
void Link::travel() {
  const bool is_slow = weather_.kind == Weather::Kind::slow;
  world_.pass(world_.random().between(Duration{0}, is_slow ? kSlowlyLate : kFinelyLate));
  if (weather_.kind != Weather::Kind::hanging) return;
  world_.wait(std::chrono::hours{24}, [this] {
    return weather_.kind != Weather::Kind::hanging && planted_ != Planted::never_answers;
  });
}

bool Link::fails(std::string_view name) {
  switch (weather_.kind) {
    case Weather::Kind::failing:
      return !world_.random().one_in(3);
    case Weather::Kind::down:
      return true;
    case Weather::Kind::not_keeping:
      return kind_of(name) == "keep";
    case Weather::Kind::fine:
    case Weather::Kind::slow:
    case Weather::Kind::hanging:
      return false;
  }
  return false;
}

void Link::call(const std::string& store, std::string_view name,
                const std::function<void()>& effect) {
  begin_work(store, name);
  World::Work& work = world_.work();
  work.call = name;
  work.has_failed = true;  // until it has succeeded
  const bool fails = this->fails(name);
  const bool fails_before =
      fails && (weather_.kind == Weather::Kind::down || world_.random().one_in(2));
  world_.note("calls {} of {}", name, store);
  travel();
  if (fails_before) throw Error(ErrorCode::unavailable, "the server is not there");
  effect();
  travel();
  if (fails) throw Error(ErrorCode::outcome_unknown, "the answer was lost");
  work.has_failed = false;
}

void Link::begin_work(const std::string& store, std::string_view name) {
  World::Work& work = world_.work();
  if (std::exchange(work.has_called, true)) return;
  State& state = stores_[store];
  work.store = store;
  if (++under_way_ > most_calls_) {
    world_.violate("{} calls are under way to {}, which has {}", under_way_, server_, most_calls_);
  }
  if (++state.under_way[std::string(kind_of(name))] > 1) {
    world_.violate("two at a time {} {}", kind_of(name), store);
  }
  if (!state.is_in_trouble) return;
  if (const std::size_t calls = calls_in_trouble();
      calls > std::max<std::size_t>(most_calls_ / 2, 1)) {
    world_.violate("{} calls are under way to stores of {} that fail", calls, server_);
  }
}

std::size_t Link::calls_in_trouble() const {
  std::size_t calls = 0;
  for (const auto& [store, state] : stores_) {
    if (!state.is_in_trouble) continue;
    for (const auto& [kind, under_way] : state.under_way) calls += under_way;
  }
  return calls;
}

void Link::on_work_ended() {
  const World::Work& work = world_.work();
  State& state = stores_[work.store];
  const std::string_view kind = kind_of(work.call);
  --under_way_;
  --state.under_way[std::string(kind)];
  if (kind == "keep") return;
  state.is_in_trouble = work.has_failed && counts_trouble_ && !state.is_removed;
  (kind == "claim" ? state.has_failed_to_claim : state.has_failed_to_settle) = work.has_failed;
}

bool Link::is_under_way(const std::string& store, std::string_view kind) const {
  const auto found = stores_.find(store);
  if (found == stores_.end()) return false;
  const auto count = found->second.under_way.find(kind);
  return count != found->second.under_way.end() && count->second > 0;
}

bool Link::is_claiming() const {
  return std::ranges::any_of(
      stores_, [this](const auto& entry) { return is_under_way(entry.first, "claim"); });
}

bool Link::has_failed_to_claim(const std::string& store) const {
  const auto found = stores_.find(store);
  return found != stores_.end() && found->second.has_failed_to_claim;
}

bool Link::has_failed_to_settle(const std::string& store) const {
  const auto found = stores_.find(store);
  return found != stores_.end() && found->second.has_failed_to_settle;
}

// The store -------------------------------------------------------------------------------------

LinkedStore::LinkedStore(Backend& backend, Link& link, World& world, Ledger& ledger,
                         Planted planted)
    : ForwardingStore(backend.store),
      backend_(backend),
      inbox_(backend, link, world, ledger, planted) {}

Capabilities LinkedStore::capabilities() const {
  Capabilities capabilities = below().capabilities();
  capabilities.notifies = backend_.notifies;
  return capabilities;
}

LinkedStore::Queue::Queue(Backend& backend, Link& link, World& world, Ledger& ledger,
                          Planted planted)
    : ForwardingQueueStore(backend.store.inbox()),
      backend_(backend),
      link_(link),
      world_(world),
      ledger_(ledger),
      planted_(planted) {}

void LinkedStore::Queue::forward(std::string_view name, const std::function<void()>& call) {
  link_.call(backend_.name, name, call);
}

ClaimResult LinkedStore::Queue::do_claim(const ClaimRequest& request) {
  ClaimResult claimed;
  forward("claim", [&] {
    claimed = below().claim(request);
    ledger_.on_claimed(backend_.name, claimed);
    spoil(claimed);
  });
  return claimed;
}

void LinkedStore::Queue::spoil(std::span<const ClaimedMessage> claimed) {
  if (planted_ != Planted::holds_nothing && planted_ != Planted::loses_messages) return;
  if (claimed.empty() || !world_.random().one_in(20)) return;
  const ClaimedMessage& victim = claimed.front();
  if (planted_ == Planted::holds_nothing) {
    below().settle(Settlement{delivery_of(victim), Release{}});
  } else {
    below().mark(Mark{victim.message.key, MarkAs::processed});
  }
}

std::vector<SettleOutcome> LinkedStore::Queue::do_settle(std::span<const Settlement> settlements) {
  std::vector<SettleOutcome> outcomes;
  forward("settle", [&] {
    outcomes = below().settle(settlements);
    ledger_.on_settled(backend_.name, settlements, outcomes);
  });
  return outcomes;
}

std::vector<ExtendOutcome> LinkedStore::Queue::do_extend(
    std::span<const LeaseExtension> extensions) {
  std::vector<ExtendOutcome> outcomes;
  forward("extend", [&] {
    outcomes = below().extend(extensions);
    ledger_.on_extended(backend_.name, extensions, outcomes);
  });
  return outcomes;
}

void LinkedStore::Queue::do_listen(std::weak_ptr<WorkListener> listener) {
  if (!backend_.notifies || planted_ == Planted::tells_nobody) return;
  below().listen(std::move(listener));
}

}  // namespace oncebox::simulation
