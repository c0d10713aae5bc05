#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "oncebox/queue_types.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "queue_sql.hpp"
#include "row_batch.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

/// The messages of one enqueue, as the statements want them. Borrows them.
class Arrivals {
 public:
  /// `now` is what a test says.
  Arrivals(std::span<const Message> messages, const std::optional<TimePoint>& now);

  [[nodiscard]] std::span<const Message> messages() const noexcept { return messages_; }
  [[nodiscard]] const sql::StorageKey& key(std::size_t place) const { return keys_[place]; }
  [[nodiscard]] const std::set<std::string>& partitions() const noexcept { return partitions_; }
  [[nodiscard]] bool has_priorities() const noexcept { return !priorities_.empty(); }
  [[nodiscard]] bool has_key_twice() const;

  /// Sorted by key: two calls with the same keys in another order would wait for each other.
  [[nodiscard]] std::vector<std::size_t> places_by_key() const;
  /// What stands first in each row of a message.
  void put_message(RowArrays& rows, std::size_t place) const;

  /// kEnqueueColumns, now.
  [[nodiscard]] Parameters enqueue_values() const;
  [[nodiscard]] Parameters priority_array() const;

 private:
  const std::span<const Message> messages_;
  const std::optional<TimePoint> now_;
  std::vector<sql::StorageKey> keys_;
  std::set<std::string> partitions_;
  std::set<std::int16_t> priorities_;
};

/// Takes messages in, new ones and known ones, in a transaction in which the locks of their
/// partitions are held. The rows are to be written by the caller. Throws `PartitionsNotLocked`.
[[nodiscard]] std::vector<EnqueueOutcome> take_in(const Arrivals& arrivals, RowBatch& rows,
                                                  Transaction& transaction, const QueueSql& sql,
                                                  const EnqueueOptions& options);

/// The same in a transaction of the caller, which may commit it much later. Takes the
/// locks that it needs.
[[nodiscard]] std::vector<EnqueueOutcome> take_in_joined(const Arrivals& arrivals, RowBatch& rows,
                                                         Transaction& transaction,
                                                         const QueueSql& sql,
                                                         const EnqueueOptions& options);

/// The bytes of a call's payloads with one more; throws `invalid_argument` when this one, or all
/// together, are too many.
[[nodiscard]] std::size_t checked_sum(std::size_t bytes, const Payload& payload,
                                      std::size_t max_payload_bytes);

}  // namespace oncebox::postgresql
