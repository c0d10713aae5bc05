#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

#include "memory_queue.hpp"
#include "oncebox/driver/answer_room.hpp"
#include "oncebox/driver/list_cursor.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::memory {

MessageFilter::Subject MemoryQueue::subject_of(const Row& row, TimePoint now) const {
  const std::optional<PartitionKey>& partition_key = row.state.partition_key;
  const ShownState shown = shown_state_of(row, now);
  return {.key = row.key,
          .state = shown.state,
          .waiting_for = shown.waiting_for,
          .topic = row.content != nullptr ? &row.content->topic : nullptr,
          .partition_key = partition_key ? &*partition_key : nullptr,
          .history = row.state.history,
          .finished_at = row.state.finished_at,
          .expires_at = row.state.expires_at};
}

// Fills the page from rows that come in the order of the list.
template <class Iterator>
MessagePage MemoryQueue::collect(Iterator row, const Iterator& end,
                                 const ListRequest& request) const {
  const TimePoint now = clock_.now();
  MessagePage page;
  AnswerRoom room(request.max_bytes);
  const Row* last = nullptr;
  for (; row != end; ++row) {
    if (!request.filter.matches(subject_of(*row, now))) continue;
    std::optional<MessageRecord> record;
    if (page.records.size() < request.limit) record = to_record(*row, request.payloads, now);
    if (!record || !room.take(bytes_of(*record))) {
      page.next = list_cursor(last->row_id, request.order);
      break;
    }
    page.records.push_back(std::move(*record));
    last = &*row;
  }
  return page;
}

MessagePage MemoryQueue::do_list(const ListRequest& request) {
  std::optional<std::uint64_t> after;
  if (request.after) after = number_of(*request.after, request.order);
  const detail::Lock lock(mutex_);
  RowsById& rows = rows_.index.rows_by_id();
  if (request.order == ListOrder::oldest_first) {
    return collect(after ? rows.upper_bound(*after) : rows.begin(), rows.end(), request);
  }
  const auto from = after ? rows.lower_bound(*after) : rows.end();
  return collect(std::make_reverse_iterator(from), std::make_reverse_iterator(rows.begin()),
                 request);
}

std::size_t MemoryQueue::do_count(const MessageFilter& filter) {
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  std::size_t count = 0;
  for (const Row& row : rows_.index.rows_by_id()) {
    if (filter.matches(subject_of(row, now))) ++count;
  }
  return count;
}

QueueStats MemoryQueue::do_stats() {
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  rows_.index.promote(now);
  QueueStats stats = rows_.index.stats(now);
  count_pauses(stats, policies_.paused());
  return stats;
}

std::map<const Worker*, std::size_t> MemoryQueue::lapsed_leases(TimePoint now) {
  std::map<const Worker*, std::size_t> lapsed;
  for (const Row& row : rows_.index.leased()) {
    if (row.state.lease->live_at(now)) break;  // and so are those behind it
    ++lapsed[row.state.worker];
  }
  return lapsed;
}

// Whoever claims under ever new names must not fill the memory.
Worker& MemoryQueue::see_worker(const WorkerName& name, TimePoint now) {
  constexpr std::size_t kMaxWorkers = 10'000;
  auto found = workers_.find(name);
  if (found == workers_.end()) {
    if (workers_.size() >= kMaxWorkers) forget_workers(median_sighting());
    found = workers_.try_emplace(name, Worker{.since = now}).first;
    found->second.name = &found->first;
  }
  found->second.last_seen_at = now;
  return found->second;
}

TimePoint MemoryQueue::median_sighting() const {
  std::vector<TimePoint> sightings;
  sightings.reserve(workers_.size());
  for (const auto& [name, worker] : workers_) sightings.push_back(worker.last_seen_at);
  const auto middle = sightings.begin() + static_cast<std::ptrdiff_t>(sightings.size() / 2);
  std::ranges::nth_element(sightings, middle);
  return *middle;
}

void MemoryQueue::forget_workers(TimePoint last_seen_until) {
  std::erase_if(workers_, [&](const auto& entry) {
    return entry.second.last_seen_at <= last_seen_until && entry.second.leases == 0;
  });
}

std::vector<WorkerRecord> MemoryQueue::do_workers() {
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  const std::map<const Worker*, std::size_t> lapsed = lapsed_leases(now);
  std::vector<WorkerRecord> workers;
  workers.reserve(workers_.size());
  for (const auto& [name, worker] : workers_) {
    const auto ended = lapsed.find(&worker);
    const std::size_t held = worker.leases - (ended == lapsed.end() ? 0 : ended->second);
    if (held == 0 && worker.last_seen_at <= now - kWorkerRetention) continue;
    workers.push_back(
        {.name = name, .leases = held, .since = worker.since, .last_seen_at = worker.last_seen_at});
  }
  std::ranges::sort(workers, std::ranges::greater(), [](const WorkerRecord& worker) {
    return std::pair(worker.leases > 0, worker.last_seen_at);
  });
  if (workers.size() > limits::kMaxListItems) {
    workers.erase(workers.begin() + limits::kMaxListItems, workers.end());
  }
  return workers;
}

std::vector<ReviveOutcome> MemoryQueue::do_revive(std::span<const MessageKey> keys,
                                                  const ReviveOptions& options) {
  std::vector<ReviveOutcome> outcomes;
  outcomes.reserve(keys.size());
  std::vector<Row*> rows;
  rows.reserve(keys.size());
  std::unordered_set<const Row*> named;

  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    for (const MessageKey& key : keys) {
      Row* const row = rows_.index.find(key);
      if (row == nullptr) {
        outcomes.push_back(ReviveOutcome::unknown);
      } else if (row->state.status == Status::dead && named.insert(row).second) {
        outcomes.push_back(ReviveOutcome::revived);
        rows.push_back(row);
      } else {
        outcomes.push_back(ReviveOutcome::not_dead);
      }
    }
    revive_rows(rows, options, now);
  }
  listeners_.notify();
  return outcomes;
}

std::size_t MemoryQueue::do_revive_matching(const MessageFilter& filter,
                                            const ReviveOptions& options, std::size_t limit) {
  std::size_t revived = 0;
  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    const std::vector<Row*> rows = matching(only_dead(filter), limit, now);
    revive_rows(rows, options, now);
    revived = rows.size();
  }
  if (revived > 0) listeners_.notify();
  return revived;
}

void MemoryQueue::revive_rows(std::span<Row* const> rows, const ReviveOptions& options,
                              TimePoint now) {
  const std::string reason = clip_text(options.reason, limits::kMaxReasonBytes);
  std::vector<std::string> reasons(rows.size(), reason);
  std::vector<Partition*> partitions;
  partitions.reserve(rows.size());
  try {
    for (const Row* row : rows) {
      const std::optional<PartitionKey>& key = row->state.partition_key;
      partitions.push_back(key ? &rows_.index.partition(*key) : nullptr);
    }
  } catch (...) {
    std::sort(partitions.begin(), partitions.end());
    const auto last = std::unique(partitions.begin(), partitions.end());
    for (auto partition = partitions.begin(); partition != last; ++partition) {
      if (*partition != nullptr) rows_.index.drop_if_unused(**partition);
    }
    throw;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row& row = *rows[i];
    rows_.index.edit(row, now, [&]() noexcept {
      row.partition = partitions[i];
      revive_after(row.state, options.delay, std::move(reasons[i]), now);
    });
  }
}

std::vector<Row*> MemoryQueue::matching(const MessageFilter& filter, std::size_t limit,
                                        TimePoint now) {
  std::vector<Row*> rows;
  const bool only_dead = filter.states == std::vector{State::dead};
  if (!only_dead) {
    for (Row& row : rows_.index.rows_by_id()) {
      if (rows.size() == limit) break;
      if (filter.matches(subject_of(row, now))) rows.push_back(&row);
    }
    return rows;
  }
  // Among many that are done they are found by their topics.
  for (auto& [topic, lane] : rows_.index.lanes()) {
    for (Row& row : lane.dead) {
      if (filter.matches(subject_of(row, now))) rows.push_back(&row);
    }
  }
  const auto older = [](const Row* a, const Row* b) { return a->row_id < b->row_id; };
  std::sort(rows.begin(), rows.end(), older);
  rows.resize(std::min(rows.size(), limit));
  return rows;
}

void MemoryQueue::Rows::remove(Row& row) noexcept {
  bytes -= bytes_of(row.key);
  if (row.content != nullptr) bytes -= bytes_of(*row.content);
  if (row.replaced != nullptr) {
    for (const ReplacedContent& replaced : *row.replaced) bytes -= bytes_of(replaced);
  }
  for (const Attempt& attempt : row.attempts) bytes -= bytes_of(attempt);
  index.destroy(row);
}

std::vector<ActOutcome> MemoryQueue::do_act(std::span<const MessageKey> keys,
                                            const OperatorAction& action,
                                            const ActOptions& options) {
  std::vector<bool> meant;
  meant.reserve(keys.size());
  std::vector<PreparedEnd> prepared;
  prepared.reserve(keys.size());
  std::vector<ActOutcome> outcomes;
  outcomes.reserve(keys.size());
  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    for (const MessageKey& key : keys) {
      Row* const row = rows_.index.find(key);
      meant.push_back(row != nullptr &&
                      (!options.only || options.only->matches(subject_of(*row, now))));
      prepared.push_back(prepare(row, action, options, now));
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      prepared[i].row = rows_.index.find(keys[i]);  // it may have been removed since
      const bool is_refused = prepared[i].row != nullptr && !meant[i];
      outcomes.push_back(is_refused ? ActOutcome::refused
                                    : act_on(std::move(prepared[i]), action, now));
    }
  }
  listeners_.notify();
  return outcomes;
}

std::size_t MemoryQueue::do_act_matching(const MessageFilter& filter, const OperatorAction& action,
                                         std::size_t limit, const ActOptions& options) {
  std::size_t changed = 0;
  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    const std::vector<Row*> rows = matching(filter, limit, now);
    std::vector<PreparedEnd> prepared;
    prepared.reserve(rows.size());
    for (Row* row : rows) prepared.push_back(prepare(row, action, options, now));
    for (PreparedEnd& end : prepared) act_on(std::move(end), action, now);
    changed = rows.size();
  }
  listeners_.notify();
  return changed;
}

MemoryQueue::PreparedEnd MemoryQueue::prepare(Row* row, const OperatorAction& action,
                                              const ActOptions& options, TimePoint now) {
  PreparedEnd prepared{.row = row, .error = cancellation_text(options.reason)};
  if (row == nullptr) return prepared;
  prepared.attempt =
      attempt_to_keep(*row, cancelled_attempt(row->state, action, prepared.error, now));
  return prepared;
}

ActOutcome MemoryQueue::act_on(PreparedEnd&& prepared, const OperatorAction& action,
                               TimePoint now) noexcept {
  if (prepared.row == nullptr) return ActOutcome::unknown;
  Row& row = *prepared.row;
  const ShownState shown = shown_state_of(row, now);
  ActEffect effect = ActEffect::none;
  rows_.index.edit(row, now, [&]() noexcept {
    effect = apply_action(row.state, action, shown, std::move(prepared.error), now);
    // It leaves its partition before it is removed.
    if (effect == ActEffect::removed) finish(row.state, Status::dead, now);
  });
  if (effect == ActEffect::changed) {
    rows_.keep(row, std::move(prepared.attempt));
  } else if (effect == ActEffect::removed) {
    rows_.remove(row);
  }
  return outcome_of(effect);
}

CleanupResult MemoryQueue::do_cleanup(const CleanupRequest& request) {
  handlers_.require_none_here();
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  std::vector<Row*> rows;
  const auto gather = [&](FinishedRows& finished, Duration retention) {
    for (Row& row : finished) {
      const bool due = *row.state.finished_at + retention <= now;
      if (!due || rows.size() == request.limit) break;
      rows.push_back(&row);
    }
  };
  gather(rows_.index.done(), request.done_retention);
  CleanupResult result{.done_removed = rows.size()};
  if (request.dead_retention) {
    for (auto& [topic, lane] : rows_.index.lanes()) gather(lane.dead, *request.dead_retention);
    result.dead_removed = rows.size() - result.done_removed;
  }
  forget_workers(now - kWorkerRetention);
  for (Row* row : rows) rows_.remove(*row);
  return result;
}

}  // namespace oncebox::memory
