#pragma once

#include <array>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hash_index.hpp"
#include "oncebox/driver/message_state.hpp"

/// The data of a memory queue. Rows stand in several ordered indexes at once; the links are part of
/// the row, so that moving a row from one index to another allocates nothing and cannot fail.
namespace oncebox::memory {

namespace bi = boost::intrusive;

struct Lane;
struct Partition;

/// Where a row stands. Each phase but `seen` and `blocked` has an index; those that wait for their
/// due time and those that back off share one.
enum class Phase { seen, blocked, waiting, backing_off, ready, leased, done, dead };
inline constexpr std::size_t kPhases = 8;

/// What the sender gave, apart from what can change without new content.
struct Content {
  Topic topic;
  Payload payload;
  Headers headers;
};

/// Content that an operator replaced.
struct ReplacedContent {
  int content_version = 0;
  std::unique_ptr<const Content> content;
  std::optional<ContentHash> hash;
  TimePoint replaced_at{};
  std::string replaced_by;
  std::string reason;
};

/// Somebody who has claimed. Leases point here, so that a claim does not copy a name for each.
struct Worker {
  const WorkerName* name = nullptr;  ///< the key under which the worker is stored
  TimePoint since{};
  TimePoint last_seen_at{};
  std::size_t leases = 0;  ///< with those that have lapsed; none: it may be forgotten
};

/// The lease itself names no worker.
struct RowState : MessageState {
  Lane* lane = nullptr;
  Worker* worker = nullptr;  ///< set while there is a lease
};

using IndexHook = bi::set_member_hook<bi::link_mode<bi::safe_link>>;

struct Row {
  Row(const MessageKey& message_key, std::uint64_t id) : key(message_key), row_id(id) {}

  HashHook key_hook;
  const MessageKey key;
  const std::uint64_t row_id;  ///< order of first storing; the order of lists
  RowState state;
  std::unique_ptr<const Content> content;  ///< null: never enqueued
  /// Null while nothing was replaced: few messages ever are.
  std::unique_ptr<std::vector<ReplacedContent>> replaced;
  std::list<Attempt> attempts;     ///< to move one in needs no memory
  Partition* partition = nullptr;  ///< set while in processing with a partition key
  Phase phase = Phase::seen;

  IndexHook row_hook;
  IndexHook phase_hook;
  IndexHook expiry_hook;
  IndexHook partition_hook;

  /// What it is doing, unless its topic is paused.
  [[nodiscard]] ShownState shown_at(TimePoint now) const noexcept {
    const bool is_blocked = phase == Phase::blocked;
    return shown_state(state, is_blocked ? PartitionPlace::blocked : PartitionPlace::free, now);
  }
};

/// Claim order: higher priority, then eligible for longer, then enqueued earlier.
struct ClaimRank {
  Priority priority;
  TimePoint eligible_at;
  std::uint64_t enqueue_order = 0;

  friend bool operator<(const ClaimRank& a, const ClaimRank& b) noexcept {
    return std::tie(b.priority, a.eligible_at, a.enqueue_order) <
           std::tie(a.priority, b.eligible_at, b.enqueue_order);
  }
};

inline ClaimRank rank_of(const Row& row) noexcept {
  return {row.state.priority, row.state.eligible_at, row.state.enqueue_order};
}

struct ByRowId {
  using type = std::uint64_t;
  type operator()(const Row& row) const noexcept { return row.row_id; }
};
struct ByRank {
  using type = ClaimRank;
  type operator()(const Row& row) const noexcept { return rank_of(row); }
};
struct ByEnqueueOrder {
  using type = std::uint64_t;
  type operator()(const Row& row) const noexcept { return row.state.enqueue_order; }
};

/// A time, and the row's id to keep equal times apart.
using TimeKey = std::pair<TimePoint, std::uint64_t>;

struct ByEligibleTime {
  using type = TimeKey;
  type operator()(const Row& row) const noexcept { return {row.state.eligible_at, row.row_id}; }
};
struct ByLeaseEnd {
  using type = TimeKey;
  type operator()(const Row& row) const noexcept {
    return {row.state.lease->locked_until, row.row_id};
  }
};
struct ByFinish {
  using type = TimeKey;
  type operator()(const Row& row) const noexcept { return {*row.state.finished_at, row.row_id}; }
};
struct ByExpiry {
  using type = TimeKey;
  type operator()(const Row& row) const noexcept { return {*row.state.expires_at, row.row_id}; }
};

template <IndexHook Row::* Hook, class Key>
using RowIndex = bi::set<Row, bi::member_hook<Row, IndexHook, Hook>, bi::key_of_value<Key>,
                         bi::constant_time_size<false>>;

using RowsById = RowIndex<&Row::row_hook, ByRowId>;
using ReadyRows = RowIndex<&Row::phase_hook, ByRank>;
using WaitingRows = RowIndex<&Row::phase_hook, ByEligibleTime>;
using LeasedRows = RowIndex<&Row::phase_hook, ByLeaseEnd>;
using FinishedRows = RowIndex<&Row::phase_hook, ByFinish>;
using ExpiringRows = RowIndex<&Row::expiry_hook, ByExpiry>;
using PartitionRows = RowIndex<&Row::partition_hook, ByEnqueueOrder>;

/// The rows of one topic; of the empty topic, those that were never enqueued.
struct Lane {
  const std::string* topic = nullptr;  ///< the key under which the lane is stored
  ReadyRows ready;
  FinishedRows dead;
  std::array<std::size_t, kPhases> rows_in{};
  std::size_t rows = 0;
  int pins = 0;           ///< who may still need the lane though it has no row
  IndexHook active_hook;  ///< linked while `ready` is not empty
};

/// A lane is as good as its best ready row.
struct ByBestRank {
  using type = ClaimRank;
  type operator()(const Lane& lane) const noexcept { return rank_of(*lane.ready.begin()); }
};

using ActiveLanes = bi::set<Lane, bi::member_hook<Lane, IndexHook, &Lane::active_hook>,
                            bi::key_of_value<ByBestRank>, bi::constant_time_size<false>>;

/// The unfinished rows of one partition key. At most one of them, the oldest, is exposed to claims,
/// and none while one is in flight.
struct Partition {
  const std::string* key = nullptr;
  PartitionRows rows;
  Row* in_flight = nullptr;
  Row* exposed = nullptr;
  int pins = 0;  ///< who may still need the partition though it has no row
};

}  // namespace oncebox::memory
