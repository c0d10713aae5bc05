#pragma once

#include <chrono>
#include <cstddef>

namespace oncebox {

/// The bounds of a group commit. Besides what is queued, each committer holds one batch.
struct GroupCommitOptions {
  std::size_t max_batch = 1'000;                         ///< items in one commit
  std::size_t max_batch_bytes = std::size_t{16} << 20;   ///< a larger item is committed alone
  std::size_t max_queued = 10'000;                       ///< items that wait for a commit
  std::size_t max_queued_bytes = std::size_t{64} << 20;  ///< a larger item waits alone
  std::size_t committers = 1;  ///< threads; each has one commit under way at a time
  /// How long a committer waits for work before its thread ends; the next item starts another.
  std::chrono::milliseconds idle_time{10'000};
};

}  // namespace oncebox
