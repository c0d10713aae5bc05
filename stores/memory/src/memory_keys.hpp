#pragma once

#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "handler_threads.hpp"
#include "hash_index.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/driver/key_state.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/memory/memory_store.hpp"

namespace oncebox::memory {

/// The idempotency keys in memory. A single lock makes each call atomic towards others; an error
/// half-way through a batch undoes what the batch had done.
class MemoryKeys final : public IdempotencyStore {
 public:
  /// The clock and the threads are borrowed.
  MemoryKeys(const Clock& clock, const Options& options, const HandlerThreads& handlers)
      : clock_(clock), options_(options), handlers_(handlers) {}

 private:
  class Batch;

  using KeepHook = boost::intrusive::set_member_hook<>;

  struct KeyRow {
    explicit KeyRow(const IdempotencyKey& row_key) : key(row_key) {}

    HashHook key_hook;
    const IdempotencyKey key;
    KeyState state;
    std::optional<std::string> result;
    KeepHook keep_hook;
  };

  struct ByKeepUntil {
    using type = std::pair<TimePoint, const KeyRow*>;
    type operator()(const KeyRow& row) const noexcept { return {row.state.keep_until, &row}; }
  };
  using RowsByKeepUntil = boost::intrusive::set<
      KeyRow, boost::intrusive::member_hook<KeyRow, KeepHook, &KeyRow::keep_hook>,
      boost::intrusive::key_of_value<ByKeepUntil>, boost::intrusive::constant_time_size<false>>;

  struct Table {
    Table() = default;
    ~Table() { by_keep_until.clear(); }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    [[nodiscard]] KeyRow* find_known(const IdempotencyKey& key, TimePoint now) noexcept;
    std::size_t forget(TimePoint now, std::size_t limit) noexcept;
    void remove(KeyRow& row) noexcept;

    HashIndex<KeyRow, &KeyRow::key_hook> rows;
    RowsByKeepUntil by_keep_until;
    std::size_t bytes = 0;  ///< of all keys and results
  };

  std::vector<BeginOutcome> do_begin(std::span<const BeginRequest> requests) override;
  std::optional<BeginStatus> do_recognise(std::string_view key, FailedKeyPolicy on_failed) override;
  std::vector<CompleteOutcome> do_complete(std::span<const CompleteRequest> requests) override;
  std::vector<FailOutcome> do_fail(std::span<const FailRequest> requests) override;
  std::vector<ReleaseOutcome> do_release(std::span<const ReleaseRequest> requests) override;
  std::vector<KeyExtendOutcome> do_extend(std::span<const KeyExtension> extensions) override;
  std::vector<std::optional<KeyRecord>> do_find(std::span<const IdempotencyKey> keys) override;
  std::size_t do_cleanup(std::size_t limit) override;

  template <class Outcome, class Request>
  std::vector<Outcome> run_batch(std::span<const Request> requests,
                                 Outcome (Batch::*step)(const Request&));

  const Clock& clock_;
  const Options options_;
  const HandlerThreads& handlers_;
  detail::Mutex mutex_;
  Table table_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::memory
