#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "connection_pool.hpp"
#include "key_rows.hpp"
#include "names.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/idempotency_store.hpp"

namespace oncebox::postgresql {

/// The idempotency keys, one row each. A call with one key that finds it as expected is one
/// statement; every other call locks the rows of its keys, decides, and writes them back.
class PostgresqlKeys final : public IdempotencyStore {
 public:
  /// `pool` and `clock` are borrowed. Without a clock the database's time decides.
  PostgresqlKeys(ConnectionPool& pool, const Names& names, const Clock* clock);

 private:
  std::vector<BeginOutcome> do_begin(std::span<const BeginRequest> requests) override;
  std::vector<CompleteOutcome> do_complete(std::span<const CompleteRequest> requests) override;
  std::vector<FailOutcome> do_fail(std::span<const FailRequest> requests) override;
  std::vector<ReleaseOutcome> do_release(std::span<const ReleaseRequest> requests) override;
  std::vector<KeyExtendOutcome> do_extend(std::span<const KeyExtension> extensions) override;
  std::vector<std::optional<KeyRecord>> do_find(std::span<const IdempotencyKey> keys) override;
  std::size_t do_cleanup(std::size_t limit) override;

  /// The whole call in one statement. Nothing when it did not apply, and so changed nothing.
  [[nodiscard]] std::optional<BeginOutcome> begin_at_once(const BeginRequest& request,
                                                          Deadline deadline);
  [[nodiscard]] std::optional<CompleteOutcome> complete_at_once(const CompleteRequest& request,
                                                                Deadline deadline);

  /// One transaction, in which `step` decides on each request in turn.
  template <class Outcome, class Request>
  std::vector<Outcome> run_batch(std::span<const Request> requests, Deadline deadline,
                                 Outcome (*step)(const Request&, KeySlot&, TimePoint));
  /// The same for `begin`, which also answers results.
  std::vector<BeginOutcome> begin_batch(std::span<const BeginRequest> requests, Deadline deadline);

  /// The time that decides; nothing when that is the database's.
  [[nodiscard]] std::optional<TimePoint> given_time() const;

  ConnectionPool& pool_;
  const Clock* const clock_;
  const KeyStatements statements_;
};

}  // namespace oncebox::postgresql
