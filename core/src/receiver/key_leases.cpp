#include "receiver/key_leases.hpp"

#include <algorithm>
#include <system_error>

namespace oncebox::detail {

KeyLeases::KeyLeases(IdempotencyStore& keys, Duration lease, const std::string& name,
                     Logger& logger)
    : keys_(keys), lease_(lease), round_(lease / 3), name_(name), logger_(logger) {}

KeyLeases::~KeyLeases() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

// Nobody has to be woken: the thread looks again before this lease is due.
void KeyLeases::add(Held& held) {
  const std::lock_guard lock(mutex_);
  held.number = ++last_number_;
  held_.emplace(held.number, &held);
  if (running_) return;
  try {
    thread_ = std::jthread([this] { run(); });  // one that has ended is joined here
    running_ = true;
  } catch (const std::system_error& error) {
    logger_.log(LogLevel::warning, "no thread to extend leases of keys",
                {{"receiver", name_}, {"error", error.what()}});
  }
}

void KeyLeases::set_ending(Held& held) {
  const std::lock_guard lock(mutex_);
  held.ending = true;
}

void KeyLeases::remove(Held& held) {
  const std::lock_guard lock(mutex_);
  held_.erase(held.number);
}

void KeyLeases::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void KeyLeases::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (const std::vector<Renewal> due = take_due(); !due.empty()) {
      lock.unlock();
      renew(due);
      lock.lock();
      continue;
    }
    const bool called = changed_.wait_until(lock, next_due(), [&] { return stopped_ || woken_; });
    woken_ = false;
    if (!called && held_.empty()) break;
  }
  running_ = false;
}

std::vector<KeyLeases::Renewal> KeyLeases::take_due() {
  std::vector<Renewal> due;
  for (auto& [number, held] : held_) {
    if (held->since_try.elapsed() < round_) continue;
    due.push_back({number, {.key = held->key, .lease_id = held->lease_id, .lease = lease_}});
    held->since_try.restart();
  }
  return due;
}

Stopwatch::SteadyTime KeyLeases::next_due() const {
  auto next = std::chrono::steady_clock::now() + round_;
  for (const auto& [number, held] : held_) next = std::min(next, held->since_try.at(round_));
  return next;
}

void KeyLeases::renew(const std::vector<Renewal>& due) {
  try {
    std::vector<KeyExtension> extensions;
    extensions.reserve(due.size());
    for (const Renewal& renewal : due) extensions.push_back(renewal.extension);
    const std::vector<KeyExtendOutcome> outcomes = keys_.extend(extensions);
    note(due, &outcomes);
  } catch (const std::exception& error) {
    // There is time for another round before the lease ends.
    logger_.log(LogLevel::warning, "leases of keys could not be extended",
                {{"receiver", name_}, {"keys", due.size()}, {"error", error.what()}});
    note(due, nullptr);
  }
}

void KeyLeases::note(const std::vector<Renewal>& due,
                     const std::vector<KeyExtendOutcome>* outcomes) {
  for (std::size_t i = 0; i < due.size(); ++i) {
    std::stop_source stop(std::nostopstate);  // requested outside the lock: it calls others
    {
      const std::lock_guard lock(mutex_);
      const auto found = held_.find(due[i].number);
      if (found == held_.end()) continue;
      Held& held = *found->second;
      if (!is_lost_by(held, outcomes != nullptr ? &(*outcomes)[i] : nullptr)) continue;
      held.lost = true;
      stop = held.stop;
    }
    logger_.log(LogLevel::warning, "lease of a key lost",
                {{"receiver", name_}, {"key", due[i].extension.key}});
    stop.request_stop();
  }
}

bool KeyLeases::is_lost_by(Held& held, const KeyExtendOutcome* outcome) const {
  if (outcome != nullptr && outcome->lease_until) {
    held.since_success.restart();
    return false;
  }
  if (held.ending || held.lost) return false;
  return outcome != nullptr || held.since_success.elapsed() >= lease_;
}

}  // namespace oncebox::detail
