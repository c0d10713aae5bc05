#include "key_leases.hpp"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

namespace oncebox::detail {

namespace {

// Before another look, when one failed: soon enough for any lease, and no busy loop.
constexpr Duration kAfterFailure{250};

}  // namespace

KeyLeases::KeyLeases(IdempotencyStore& keys, Duration lease, const std::string& name,
                     Logger& logger, const Clock& clock)
    : keys_(keys),
      lease_(lease),
      round_(lease / 3),
      name_(name),
      logger_(logger),
      clock_(clock),
      changed_(clock) {}

KeyLeases::~KeyLeases() {
  {
    const Lock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

// The thread need not be woken: it looks again before this lease is due.
void KeyLeases::add(Held& held) {
  const Lock lock(mutex_);
  held.number_ = ++last_number_;
  held_.emplace(held.number_, &held);
  if (running_) return;
  try {
    thread_ = std::jthread([this] { run(); });  // one that has ended is joined here
    running_ = true;
  } catch (const std::exception& error) {  // not passed on: the holder must get to `remove`
    logger_.log(LogLevel::warning, "leases of keys are not extended: no thread can be started",
                {{"receiver", name_}, {"error", error.what()}});
  }
}

void KeyLeases::set_ending(Held& held) {
  const Lock lock(mutex_);
  held.ending_ = true;
}

void KeyLeases::remove(Held& held) {
  const Lock lock(mutex_);
  held_.erase(held.number_);
}

void KeyLeases::wake() {
  {
    const Lock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void KeyLeases::run() {
  while (rest_until(renew_due())) continue;
}

// An exception that left the thread would end the process.
SteadyTime KeyLeases::renew_due() noexcept {
  try {
    for (;;) {
      const std::vector<Renewal> due = take_due();
      if (due.empty()) return next_due();
      renew(due);
    }
  } catch (...) {
    warn_not_extended(0);
  }
  return clock_.steady() + std::min(round_, kAfterFailure);
}

bool KeyLeases::rest_until(SteadyTime next) {
  const Lock lock(mutex_);
  while (!stopped_ && !woken_ && changed_.wait_until(mutex_, next)) continue;
  const bool was_woken = std::exchange(woken_, false);
  running_ = !stopped_ && (was_woken || !held_.empty());
  return running_;
}

// Either all that is due or, when memory runs out, none.
std::vector<KeyLeases::Renewal> KeyLeases::take_due() {
  std::vector<Renewal> due;
  const Lock lock(mutex_);
  if (stopped_) return due;
  for (const auto& [number, held] : held_) {
    if (held->since_try_.elapsed() < round_) continue;
    due.push_back({number, {.key = held->key, .lease_id = held->lease_id, .lease = lease_}});
  }
  for (const Renewal& renewal : due) held_.at(renewal.number)->since_try_.restart();
  return due;
}

SteadyTime KeyLeases::next_due() {
  SteadyTime next = clock_.steady() + round_;
  const Lock lock(mutex_);
  for (const auto& [number, held] : held_) next = std::min(next, held->since_try_.at(round_));
  return next;
}

void KeyLeases::renew(const std::vector<Renewal>& due) {
  std::vector<KeyExtendOutcome> outcomes;
  try {
    std::vector<KeyExtension> extensions;
    extensions.reserve(due.size());
    for (const Renewal& renewal : due) extensions.push_back(renewal.extension);
    outcomes = keys_.extend(extensions);
  } catch (...) {
    // There is time for another round before the lease ends.
    warn_not_extended(due.size());
    return note(due, nullptr);
  }
  note(due, &outcomes);
}

void KeyLeases::warn_not_extended(std::size_t keys) noexcept {
  const auto warn = [&](std::string_view error) {
    logger_.log(LogLevel::warning, "leases of keys could not be extended",
                {{"receiver", name_}, {"keys", keys}, {"error", error}});
  };
  try {
    throw;
  } catch (const std::exception& error) {
    warn(error.what());
  } catch (...) {
    warn("an exception that is not a std::exception");
  }
}

void KeyLeases::note(const std::vector<Renewal>& due,
                     const std::vector<KeyExtendOutcome>* outcomes) {
  for (std::size_t i = 0; i < due.size(); ++i) {
    std::stop_source stop = lost_by(due[i], outcomes != nullptr ? &(*outcomes)[i] : nullptr);
    if (!stop.stop_possible()) continue;
    logger_.log(LogLevel::warning, "lease of a key lost",
                {{"receiver", name_}, {"key", due[i].extension.key}});
    stop.request_stop();  // outside the lock: it runs the handler's stop callbacks
  }
}

std::stop_source KeyLeases::lost_by(const Renewal& renewal, const KeyExtendOutcome* outcome) {
  const Lock lock(mutex_);
  const auto found = held_.find(renewal.number);
  if (found == held_.end() || !is_lost_by(*found->second, outcome)) {
    return std::stop_source(std::nostopstate);
  }
  found->second->lost = true;
  return found->second->stop;
}

bool KeyLeases::is_lost_by(Held& held, const KeyExtendOutcome* outcome) const {
  if (outcome != nullptr && outcome->lease_until) {
    held.since_success_.restart();
    return false;
  }
  if (held.ending_ || held.lost) return false;
  return outcome != nullptr || held.since_success_.elapsed() >= lease_;
}

}  // namespace oncebox::detail
