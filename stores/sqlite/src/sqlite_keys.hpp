#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "connection.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/driver/answer_room.hpp"
#include "oncebox/driver/key_state.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "reader_pool.hpp"
#include "writer.hpp"

namespace oncebox::sqlite {

/// The idempotency keys, one row of `oncebox_key` each. Every call that may change one is a call of
/// the writer, which also reads the clock: the times of a key follow the order of the commits.
class SqliteKeys final : public IdempotencyStore {
 public:
  /// Everything is borrowed. `writer_connection` is the one that `writer` writes with; the
  /// statements are prepared on it here and finalized by the destructor, so neither may happen
  /// while the writer has calls. Throws unless the schema is there.
  SqliteKeys(Connection& writer_connection, Writer& writer, ReaderPool& readers,
             const Clock& clock);

 private:
  /// The place of a key in the table.
  struct Slot {
    const IdempotencyKey& key;
    const sql::StorageKey& hash;
    AnswerRoom& room;                    ///< that the answer has for results
    std::optional<std::int64_t> row_id;  ///< absent: has no row yet
    bool is_known = false;               ///< false, too, when the row is past its retention
    KeyState state;
    std::optional<std::string> result;

    [[nodiscard]] const KeyState* known() const noexcept { return is_known ? &state : nullptr; }
  };

  std::vector<BeginOutcome> do_begin(std::span<const BeginRequest> requests) override;
  std::vector<CompleteOutcome> do_complete(std::span<const CompleteRequest> requests) override;
  std::vector<FailOutcome> do_fail(std::span<const FailRequest> requests) override;
  std::vector<ReleaseOutcome> do_release(std::span<const ReleaseRequest> requests) override;
  std::vector<KeyExtendOutcome> do_extend(std::span<const KeyExtension> extensions) override;
  std::vector<std::optional<KeyRecord>> do_find(std::span<const IdempotencyKey> keys) override;
  std::size_t do_cleanup(std::size_t limit) override;

  template <class Outcome, class Request>
  std::vector<Outcome> run_batch(std::span<const Request> requests,
                                 Outcome (SqliteKeys::*step)(const Request&, Slot&, TimePoint));

  // All of these run on the writer's thread.
  BeginOutcome begin_one(const BeginRequest& request, Slot& slot, TimePoint now);
  CompleteOutcome complete_one(const CompleteRequest& request, Slot& slot, TimePoint now);
  FailOutcome fail_one(const FailRequest& request, Slot& slot, TimePoint now);
  ReleaseOutcome release_one(const ReleaseRequest& request, Slot& slot, TimePoint now);
  KeyExtendOutcome extend_one(const KeyExtension& extension, Slot& slot, TimePoint now);
  [[nodiscard]] Slot look_up(const IdempotencyKey& key, const sql::StorageKey& hash,
                             AnswerRoom& room, TimePoint now);
  /// Writes the state of the slot, and this in place of any result.
  void store(const Slot& slot, const std::optional<std::string>& result = {});

  Connection& connection_;
  Writer& writer_;
  ReaderPool& readers_;
  const Clock& clock_;
  Statement select_;
  Statement insert_;
  Statement update_;
  Statement touch_;
  Statement forget_;
};

}  // namespace oncebox::sqlite
