#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hash_index.hpp"
#include "oncebox/driver/claim_allowance.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/topic_pattern.hpp"
#include "row.hpp"

namespace oncebox::memory {

/// Owns the rows of one queue and keeps every index true to them. Not thread-safe: the queue's lock
/// guards it. What is not marked noexcept may throw only `std::bad_alloc`, and then nothing has
/// changed.
class QueueIndex {
 public:
  QueueIndex();
  ~QueueIndex();
  QueueIndex(const QueueIndex&) = delete;
  QueueIndex& operator=(const QueueIndex&) = delete;

  [[nodiscard]] Row* find(const MessageKey& key) noexcept { return rows_.find(key); }
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

  /// Adds a row that was just seen. The key must be new.
  Row& create(const MessageKey& key, TimePoint now);
  /// The row must not be in processing with a partition key.
  void destroy(Row& row) noexcept;

  /// Changes a row by calling `change`, which must not throw, and moves it, and whatever it blocks
  /// or frees in its partition, to where it belongs at `now`.
  template <class Change>
  void edit(Row& row, TimePoint now, Change change) noexcept {
    Lane* const lane = row.state.lane;
    Partition* const partition = row.partition;
    detach(row);
    change();
    attach(row, now);
    if (partition != nullptr) settle_partition(*partition, now);
    if (row.partition != nullptr && row.partition != partition) {
      settle_partition(*row.partition, now);
    }
    if (!row.partition_hook.is_linked()) row.partition = nullptr;
    if (partition != nullptr) drop_if_unused(*partition);
    if (lane != row.state.lane) drop_if_unused(*lane);
  }

  /// Finds or makes the place of a topic or partition key. A place that stays unused must be
  /// dropped.
  Lane& lane(std::string_view topic);
  Partition& partition(const PartitionKey& key);
  void drop_if_unused(Lane& lane) noexcept;
  void drop_if_unused(Partition& partition) noexcept;

  /// The next number in enqueue order.
  [[nodiscard]] std::uint64_t next_enqueue_order() noexcept { return ++last_enqueue_order_; }

  /// A delivery number that was never given before.
  [[nodiscard]] DeliveryNumber next_delivery() noexcept { return DeliveryNumber{++last_delivery_}; }

  /// Makes ready what has become eligible.
  void promote(TimePoint now) noexcept;

  /// The rows that a claim may take, in claim order, at most `limit`, and only what the allowance
  /// lets it take.
  [[nodiscard]] std::vector<Row*> best_ready(std::size_t limit, const TopicSelection& topics,
                                             ClaimAllowance& allowance);

  /// How many rows of these topics are leased.
  [[nodiscard]] std::size_t leased(const TopicPattern& topics) const noexcept;

  /// The earliest time after `now` at which a row of these topics leaves its wait or loses its
  /// lease.
  [[nodiscard]] std::optional<TimePoint> next_due(const TopicSelection& topics,
                                                  TimePoint now) const noexcept;

  /// A row whose lease has lapsed, or that expired without a lease; null when there is none.
  [[nodiscard]] Row* first_lapsed(TimePoint now) noexcept;
  [[nodiscard]] Row* first_expired(TimePoint now) noexcept;

  /// Without pauses. What has become eligible must have been promoted.
  [[nodiscard]] QueueStats stats(TimePoint now) const;

  /// For lists, retention and dead letters.
  [[nodiscard]] RowsById& rows_by_id() noexcept { return by_id_; }
  [[nodiscard]] FinishedRows& done() noexcept { return done_; }
  [[nodiscard]] const LeasedRows& leased() const noexcept { return leased_; }
  using Lanes = std::map<std::string, Lane, std::less<>>;
  [[nodiscard]] Lanes& lanes() noexcept { return lanes_; }

 private:
  class NamedLanes;

  void detach(Row& row) noexcept;
  void attach(Row& row, TimePoint now) noexcept;
  [[nodiscard]] static Phase phase_at(const Row& row, TimePoint now) noexcept;
  void enter(Row& row, Phase phase) noexcept;
  void leave(Row& row) noexcept;
  void enter_ready(Row& row) noexcept;
  void leave_ready(Row& row) noexcept;
  void settle_partition(Partition& partition, TimePoint now) noexcept;

  HashIndex<Row, &Row::key_hook> rows_;
  Lanes lanes_;
  Lane* unenqueued_;
  std::unordered_map<std::string, Partition> partitions_;

  RowsById by_id_;
  ActiveLanes active_lanes_;
  WaitingRows waiting_;
  LeasedRows leased_;
  FinishedRows done_;
  ExpiringRows expiring_;

  std::uint64_t last_row_id_ = 0;
  std::uint64_t last_enqueue_order_ = 0;
  std::uint64_t last_delivery_ = 0;
};

}  // namespace oncebox::memory
