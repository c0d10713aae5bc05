#include "watch_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oncebox/defaults.hpp"

namespace oncebox {

namespace {

/// A store of which more is unfinished is not searched for leases: that would cost too much.
constexpr std::size_t kMaxSearched = 10'000;
constexpr std::size_t kSearchedAtOnce = 1'000;
constexpr std::size_t kMaxSymptoms = 50;
constexpr int kGoodLooks = 2;

std::string words_for(Duration duration) {
  using namespace std::chrono;
  if (duration < minutes{2}) return fmt::format("{} s", floor<seconds>(duration).count());
  if (duration < hours{2}) return fmt::format("{} min", floor<minutes>(duration).count());
  if (duration < days{2}) return fmt::format("{} h", floor<hours>(duration).count());
  return fmt::format("{} days", floor<days>(duration).count());
}

/// Bad from `limit` on, good below half of it.
Level level_of(Duration value, Duration limit) {
  if (value >= limit) return Level::bad;
  return value >= limit - value ? Level::unclear : Level::good;
}

/// Without an overflow: a lease may be as long as a client likes.
Duration times(Duration duration, std::size_t factor) {
  const auto count = static_cast<Duration::rep>(factor);
  return duration > Duration::max() / count ? Duration::max() : duration * count;
}

}  // namespace

std::vector<Symptom> QueueRules::look(const QueueLook& look) {
  std::vector<Symptom> found;
  look_for_leases(look, found);
  look_for_late(look, found);
  look_for_backlog(look, found);
  look_for_poison(look, found);
  return found;
}

void QueueRules::look_for_leases(const QueueLook& look, std::vector<Symptom>& found) {
  if (look.stats.total().unfinished() <= kMaxSearched) {
    stuck_ = stuck_leases(look);
  } else {
    // Whether they are over nobody knows.
    for (Symptom& symptom : stuck_) symptom.level = Level::unclear;
  }
  found.insert(found.end(), stuck_.begin(), stuck_.end());
}

std::vector<Symptom> QueueRules::stuck_leases(const QueueLook& look) {
  const TopicStats total = look.stats.total();
  // One that has lapsed counts as ready, or as waiting for the end of a pause.
  const bool may_be_stuck = total.leased > 0 || total.ready > 0 || total.waiting.pause > 0;
  std::map<MessageKey, Held> still_held;
  std::map<Topic, Symptom> worst;
  const auto search = [&](const MessageRecord& record) {
    if (!record.lease || !record.message) return;
    const bool live = record.lease->live_at(look.now);
    TimePoint since = record.lease->locked_until;
    Duration limit = options_.lapsed_after;
    if (live) {
      Held held{record.lease->delivery, look.now, record.lease->locked_until - look.now};
      const auto known = held_.find(record.key);
      if (known != held_.end() && known->second.delivery == held.delivery) {
        held.since = known->second.since;
        held.lease = std::max(held.lease, known->second.lease);
      }
      since = held.since;
      limit = std::max(options_.held_after, times(held.lease, options_.held_leases));
      still_held.emplace(record.key, held);
    }
    const Duration length = look.now - since;
    const Level level = level_of(length, limit);
    if (level == Level::good) return;
    Symptom& of_topic =
        worst.try_emplace(record.message->topic, Symptom{.level = Level::good}).first->second;
    const bool is_worse = level == Level::bad && of_topic.since > since;
    if (of_topic.level == Level::bad && !is_worse) return;
    of_topic = {FindingCode::lease_stuck, record.message->topic, level, since,
                live
                    ? fmt::format("a message has been held by one worker for {}", words_for(length))
                    : fmt::format("a lease ended {} ago and nobody took the message over",
                                  words_for(length))};
  };
  if (may_be_stuck) {
    ListRequest request{.filter = {.statuses = {Status::processing}},
                        .limit = kSearchedAtOnce,
                        .max_bytes = defaults::kStepBytes};
    do {
      const MessagePage page = look.operations.list(request);
      for (const MessageRecord& record : page.records) search(record);
      request.after = page.next;
    } while (request.after);
  }
  held_ = std::move(still_held);
  std::vector<Symptom> stuck;
  for (auto& [topic, symptom] : worst) {
    if (stuck.size() < kMaxSymptoms) stuck.push_back(std::move(symptom));
  }
  return stuck;
}

void QueueRules::look_for_late(const QueueLook& look, std::vector<Symptom>& found) const {
  std::size_t room = kMaxSymptoms;
  for (const TopicStats& stats : look.stats.topics) {
    if (!stats.topic || !stats.oldest_ready_at) continue;
    const Duration waits = look.now - *stats.oldest_ready_at;
    const Level level = level_of(waits, options_.ready_after);
    if (level == Level::good || room == 0) continue;
    --room;
    found.push_back({FindingCode::ready_late, stats.topic, level, *stats.oldest_ready_at,
                     fmt::format("a message has been ready for {}; {} are ready and {} are being "
                                 "handled",
                                 words_for(waits), stats.ready, stats.leased)});
  }
}

void QueueRules::look_for_backlog(const QueueLook& look, std::vector<Symptom>& found) {
  const std::size_t ready = look.stats.total().ready;
  const bool grows = !backlogs_.empty() && ready > backlogs_.back();
  if (!grows) {
    backlogs_.clear();
    grows_since_ = look.now;
  }
  backlogs_.push_back(ready);
  if (backlogs_.size() > options_.growing_looks + 1) backlogs_.pop_front();
  if (ready <= options_.backlog) return;
  const bool long_enough = backlogs_.size() > options_.growing_looks;
  found.push_back({FindingCode::store_lagging,
                   {},
                   long_enough ? Level::bad : Level::unclear,
                   *grows_since_,
                   fmt::format("{} messages are ready, and they have become more for {}", ready,
                               words_for(look.now - *grows_since_))});
}

void QueueRules::look_for_poison(const QueueLook& look, std::vector<Symptom>& found) {
  std::map<Topic, std::size_t> dead;
  std::size_t room = kMaxSymptoms;
  for (const TopicStats& stats : look.stats.topics) {
    if (!stats.topic || stats.dead == 0) continue;
    dead.emplace(*stats.topic, stats.dead);
    const auto before = dead_.find(*stats.topic);
    const bool more_died = before == dead_.end() || stats.dead > before->second;
    const bool is_known = poisoned_.contains(*stats.topic);
    if ((!more_died && !is_known) || room == 0) continue;
    // Counted only on a suspicion: what ended in the window, whatever retention removed meanwhile.
    MessageFilter ended{.statuses = {Status::dead}, .topic = TopicPattern(*stats.topic)};
    ended.finished.from = look.now - options_.poison_window;
    const std::size_t deaths = look.operations.count(ended);
    if (deaths * 2 < options_.poison_deaths) {
      poisoned_.erase(*stats.topic);
      continue;
    }
    ended.statuses = {Status::done};
    const std::size_t all = deaths + look.operations.count(ended);
    const std::size_t percent = deaths * 100 / all;
    if (percent * 2 < options_.poison_percent) {
      poisoned_.erase(*stats.topic);
      continue;
    }
    --room;
    const bool bad = deaths >= options_.poison_deaths && percent >= options_.poison_percent;
    const TimePoint since = poisoned_.try_emplace(*stats.topic, look.now).first->second;
    found.push_back({FindingCode::topic_poison, stats.topic, bad ? Level::bad : Level::unclear,
                     since,
                     fmt::format("{} of {} messages that ended in the last {} died", deaths, all,
                                 words_for(options_.poison_window))});
  }
  std::erase_if(poisoned_, [&](const auto& entry) { return !dead.contains(entry.first); });
  dead_ = std::move(dead);
}

std::vector<Findings::Change> Findings::update(const std::string& store, std::string_view queue,
                                               const std::vector<Symptom>& symptoms) {
  std::vector<Change> changes;
  for (auto& [place, entry] : entries_) {
    if (std::get<0>(place) == queue) ++entry.good_looks;
  }
  for (const Symptom& symptom : symptoms) {
    const Place place{std::string(queue), symptom.code, symptom.topic};
    auto found = entries_.find(place);
    const bool is_new = found == entries_.end();
    if (is_new && symptom.level != Level::bad) continue;
    if (is_new) found = entries_.emplace(place, Entry{}).first;
    Entry& entry = found->second;
    entry.good_looks = 0;
    if (symptom.level != Level::bad) continue;
    entry.finding = {symptom.code,  store,         std::string(queue),
                     symptom.topic, symptom.since, symptom.detail};
    if (is_new) changes.push_back({entry.finding, true});
  }
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->second.good_looks < kGoodLooks) {
      ++entry;
      continue;
    }
    changes.push_back({std::move(entry->second.finding), false});
    entry = entries_.erase(entry);
  }
  return changes;
}

std::vector<Finding> Findings::all() const {
  std::vector<Finding> all;
  for (const auto& [place, entry] : entries_) all.push_back(entry.finding);
  return all;
}

}  // namespace oncebox
