#include "memory_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "oncebox/driver/answer_room.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::memory {

namespace {

std::size_t size_of(const std::optional<std::string>& text) { return text ? text->size() : 0; }

}  // namespace

/// One call's worth of new and changed keys. Each step either happens or throws and changes
/// nothing; when the batch is destroyed without `commit`, the steps before are undone.
class MemoryKeys::Batch {
 public:
  Batch(Table& table, const Options& options, TimePoint now, std::size_t items)
      : table_(table), options_(options), now_(now) {
    constexpr std::size_t kMaxStepsPerItem = 2;  // created, then changed
    undo_.reserve(kMaxStepsPerItem * items);
  }

  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  ~Batch() {
    for (auto step = undo_.rbegin(); step != undo_.rend(); ++step) take_back(*step);
  }

  void commit() noexcept { undo_.clear(); }

  BeginOutcome begin(const BeginRequest& request) {
    KeyRow* const row = table_.find_known(request.key, now_);
    const BeginStatus status = begin_as_found(state_of(row), request.on_failed, now_);
    if (status == BeginStatus::acquired) return acquire(request, row);
    BeginOutcome outcome = begin_outcome(status, row->state);
    if (row->result) outcome.result_left_out = !room_.take(row->result->size());
    if (!outcome.result_left_out) outcome.result = row->result;
    change(*row, [&](KeyState& state) noexcept { state.last_seen_at = now_; });
    return outcome;
  }

  CompleteOutcome complete(const CompleteRequest& request) {
    KeyRow* const row = table_.find_known(request.key, now_);
    const auto as_found = complete_as_found(state_of(row), request.lease_id);
    if (as_found) return *as_found;
    require_room(size_of(request.result));
    std::optional<std::string> result = request.result;
    KeyRow& target = row != nullptr ? *row : create(request.key);
    change(target, [&](KeyState& state) noexcept { set_processed(state, request, now_); });
    set_result(target, std::move(result));
    return CompleteOutcome::processed;
  }

  FailOutcome fail(const FailRequest& request) {
    KeyRow* const row = table_.find_known(request.key, now_);
    const auto as_found = fail_as_found(state_of(row), request.lease_id);
    if (as_found) return *as_found;
    std::string error = error_text(request);
    change(*row, [&](KeyState& state) noexcept { set_failed(state, std::move(error)); });
    return FailOutcome::failed;
  }

  ReleaseOutcome release(const ReleaseRequest& request) {
    KeyRow* const row = table_.find_known(request.key, now_);
    const auto as_found = release_as_found(state_of(row), request.lease_id);
    if (as_found) return *as_found;
    change(*row, [](KeyState& state) noexcept { set_released(state); });
    return ReleaseOutcome::released;
  }

  KeyExtendOutcome extend(const KeyExtension& extension) {
    KeyRow* const row = table_.find_known(extension.key, now_);
    const KeyExtendOutcome outcome = extend_as_found(state_of(row), extension, now_);
    if (!outcome.lease_until) return outcome;
    change(*row, [&](KeyState& state) noexcept { prolong(state, *outcome.lease_until); });
    return outcome;
  }

 private:
  struct UndoStep {
    KeyRow* row;
    bool created = false;
    bool result_replaced = false;
    KeyState state = {};
    std::optional<std::string> result = {};  // what was replaced
  };

  static const KeyState* state_of(const KeyRow* row) noexcept {
    return row != nullptr ? &row->state : nullptr;
  }

  BeginOutcome acquire(const BeginRequest& request, KeyRow* row) {
    const LeaseId lease_id = LeaseId::generate(now_);
    std::string owner = request.owner;
    KeyRow& target = row != nullptr ? *row : create(request.key);
    change(target, [&](KeyState& state) noexcept {
      hand_out(state, request, std::move(owner), lease_id, now_);
    });
    return begin_outcome(BeginStatus::acquired, target.state);
  }

  // A key that is past its retention is begun as if it were new, in the row that it left.
  KeyRow& create(const IdempotencyKey& key) {
    if (KeyRow* const forgotten = table_.rows.find(key); forgotten != nullptr) {
      change(*forgotten, [&](KeyState& state) noexcept { state = new_key_state(now_); });
      set_result(*forgotten, std::nullopt);
      return *forgotten;
    }
    require_room(key.str().size());
    if (table_.rows.size() >= options_.max_keys) throw_full("keys", options_.max_keys);
    KeyRow& row = table_.rows.insert(std::make_unique<KeyRow>(key));
    row.state = new_key_state(now_);
    table_.by_keep_until.insert(row);
    table_.bytes += key.str().size();
    undo_.push_back({.row = &row, .created = true});
    return row;
  }

  void require_room(std::size_t bytes) const {
    const std::size_t max = options_.max_key_bytes;
    if (table_.bytes + bytes > max) throw_full("bytes of keys and results", max);
  }

  [[noreturn]] static void throw_full(std::string_view of_what, std::size_t limit) {
    throw Error(ErrorCode::overloaded,
                fmt::format("the memory store holds its limit of {} {}; clean up forgotten keys, "
                            "shorten their retention or raise the limit",
                            limit, of_what));
  }

  template <class Change>
  void change(KeyRow& row, Change apply) {
    undo_.push_back({.row = &row, .state = row.state});
    reindexed(row, [&] { apply(row.state); });
  }

  template <class Apply>
  void reindexed(KeyRow& row, Apply apply) noexcept {
    RowsByKeepUntil& index = table_.by_keep_until;
    index.erase(index.iterator_to(row));
    apply();
    index.insert(row);
  }

  // Belongs to the change just made.
  void set_result(KeyRow& row, std::optional<std::string> result) noexcept {
    UndoStep& step = undo_.back();
    step.result_replaced = true;
    step.result = swap_result(row, std::move(result));
  }

  std::optional<std::string> swap_result(KeyRow& row, std::optional<std::string> result) noexcept {
    table_.bytes = table_.bytes - size_of(row.result) + size_of(result);
    return std::exchange(row.result, std::move(result));
  }

  void take_back(UndoStep& step) noexcept {
    KeyRow& row = *step.row;
    if (step.created) {
      table_.remove(row);
      return;
    }
    if (step.result_replaced) swap_result(row, std::move(step.result));
    reindexed(row, [&] { row.state = std::move(step.state); });
  }

  Table& table_;
  const Options& options_;
  const TimePoint now_;
  AnswerRoom room_{limits::kMaxBegunResultBytes};  // for the results that `begin` answers
  std::vector<UndoStep> undo_;
};

MemoryKeys::KeyRow* MemoryKeys::Table::find_known(const IdempotencyKey& key,
                                                  TimePoint now) noexcept {
  KeyRow* const row = rows.find(key);
  return row != nullptr && !row->state.forgotten_at(now) ? row : nullptr;
}

void MemoryKeys::Table::remove(KeyRow& row) noexcept {
  bytes -= row.key.str().size() + size_of(row.result);
  by_keep_until.erase(by_keep_until.iterator_to(row));
  rows.erase(row);
}

std::size_t MemoryKeys::Table::forget(TimePoint now, std::size_t limit) noexcept {
  std::size_t removed = 0;
  while (removed < limit && !by_keep_until.empty() &&
         by_keep_until.begin()->state.forgotten_at(now)) {
    remove(*by_keep_until.begin());
    ++removed;
  }
  return removed;
}

template <class Outcome, class Request>
std::vector<Outcome> MemoryKeys::run_batch(std::span<const Request> requests,
                                           Outcome (Batch::*step)(const Request&)) {
  std::vector<Outcome> outcomes;
  outcomes.reserve(requests.size());
  handlers_.require_none_here();
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  const bool crowded = table_.rows.size() + requests.size() > options_.max_keys ||
                       table_.bytes > options_.max_key_bytes / 2;
  if (crowded) table_.forget(now, requests.size());
  Batch batch(table_, options_, now, requests.size());
  for (const Request& request : requests) outcomes.push_back((batch.*step)(request));
  batch.commit();
  return outcomes;
}

std::vector<BeginOutcome> MemoryKeys::do_begin(std::span<const BeginRequest> requests) {
  return run_batch(requests, &Batch::begin);
}

// Only last_seen changes, which cannot fail and stands in no index: there is nothing to undo. The
// end of a lease is told exactly; of what is done, which is the usual duplicate, a time that is
// quicker to read than all the rest is good enough.
std::optional<BeginStatus> MemoryKeys::do_recognise(std::string_view key,
                                                    FailedKeyPolicy on_failed) {
  handlers_.require_none_here();
  const detail::Lock lock(mutex_);
  KeyRow* const row = table_.rows.find_text(key);
  if (row == nullptr) return std::nullopt;
  KeyState& state = row->state;
  const TimePoint now = state.status == KeyStatus::processed ? clock_.recent() : clock_.now();
  if (state.forgotten_at(now)) return std::nullopt;
  const BeginStatus status = begin_as_found(&state, on_failed, now);
  if (status == BeginStatus::acquired) return std::nullopt;
  state.last_seen_at = std::max(state.last_seen_at, now);
  return status;
}

std::vector<CompleteOutcome> MemoryKeys::do_complete(std::span<const CompleteRequest> requests) {
  return run_batch(requests, &Batch::complete);
}

std::vector<FailOutcome> MemoryKeys::do_fail(std::span<const FailRequest> requests) {
  return run_batch(requests, &Batch::fail);
}

std::vector<ReleaseOutcome> MemoryKeys::do_release(std::span<const ReleaseRequest> requests) {
  return run_batch(requests, &Batch::release);
}

std::vector<KeyExtendOutcome> MemoryKeys::do_extend(std::span<const KeyExtension> extensions) {
  return run_batch(extensions, &Batch::extend);
}

std::vector<std::optional<KeyRecord>> MemoryKeys::do_find(std::span<const IdempotencyKey> keys) {
  std::vector<std::optional<KeyRecord>> records;
  records.reserve(keys.size());
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  for (const IdempotencyKey& key : keys) {
    const KeyRow* const row = table_.find_known(key, now);
    records.emplace_back();
    if (row != nullptr) records.back() = to_record(row->key, row->state, row->result);
  }
  return records;
}

std::size_t MemoryKeys::do_cleanup(std::size_t limit) {
  handlers_.require_none_here();
  const detail::Lock lock(mutex_);
  const TimePoint now = clock_.now();
  return table_.forget(now, limit);
}

}  // namespace oncebox::memory
