#include <fmt/format.h>

#include <array>
#include <unordered_map>
#include <utility>

#include "arrivals.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/sql/read_rows.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "postgresql_queue.hpp"

namespace oncebox::postgresql {

namespace {

constexpr std::string_view kSelectPastContents = R"sql(
SELECT p.content_version, p.payload, p.hash_algorithm, p.hash, p.replaced_at, p.replaced_by,
       p.reason
  FROM {message} m
  JOIN {past_content} p ON p.id = m.id
 WHERE m.key = $1::uuid AND m.source = $2::text AND m.message_id = $3::text
 ORDER BY p.content_version)sql";

}  // namespace

/// The messages of one call whose payload is replaced. What they had never leaves the database.
class PostgresqlQueue::Editing {
 public:
  Editing(const QueueSql& sql, const ReviveOptions& options) : sql_(sql), options_(options) {}

  ReviveOutcome edit(RowBatch& rows, const EditedMessage& edit) {
    RowBatch::Row* const row = rows.find(edit.key);
    if (row == nullptr) return ReviveOutcome::unknown;
    if (row->state.status != Status::dead) return ReviveOutcome::not_dead;
    if (!row->content) return ReviveOutcome::no_content;
    ids_.add(row->id);
    bytes_.emplace(row->id, static_cast<std::size_t>(row->payload_bytes));
    const PastContent past = sql::revive_edited(*row, edit.payload, options_, rows.now());
    versions_.add(std::int32_t{past.content_version});
    RowBatch::save_payload(*row);
    RowBatch::save(*row);
    return ReviveOutcome::revived;
  }

  /// Keeps what the rows have now; to be called before they are written back.
  void keep(Transaction& transaction, TimePoint now) {
    if (bytes_.empty()) return;
    Parameters kept;
    kept.add(ids_).add(std::move(versions_)).add(now);
    kept.add(clip_text(options_.actor, limits::kMaxActorBytes))
        .add(clip_text(options_.reason, limits::kMaxReasonBytes));
    const Parameters which = Parameters().add(std::move(ids_));
    const std::array commands{Command{&sql_.past_totals, &which},
                              Command{&sql_.keep_contents, &kept}};
    const std::vector<Result> results = transaction.run_all(commands);
    const Result& totals = results.front();
    for (int row = 0; row < totals.rows(); ++row) {
      require_room_for_past_content({.contents = static_cast<std::size_t>(totals.int64(row, 1)),
                                     .bytes = static_cast<std::size_t>(totals.int64(row, 2))},
                                    bytes_.at(totals.int64(row, 0)));
    }
  }

 private:
  const QueueSql& sql_;
  const ReviveOptions& options_;
  ArrayValue ids_{SqlType::bigint};
  ArrayValue versions_{SqlType::integer};
  std::unordered_map<std::int64_t, std::size_t> bytes_;  // by id, of the payload that is replaced
};

std::vector<ReviveOutcome> PostgresqlQueue::do_revive_edited(std::span<const EditedMessage> edits,
                                                             const ReviveOptions& options) {
  std::size_t bytes = 0;
  std::vector<MessageKey> keys;
  keys.reserve(edits.size());
  for (const EditedMessage& edit : edits) {
    bytes = checked_sum(bytes, edit.payload, parts_.pool.options().max_payload_bytes);
    keys.push_back(edit.key);
  }
  auto outcomes = in_rows({}, [&](RowBatch& rows, Transaction& transaction) {
    rows.load(keys, RowBatch::NewRows::none);
    Editing editing(sql_, options);
    std::vector<ReviveOutcome> answers;
    answers.reserve(edits.size());
    for (const EditedMessage& edit : edits) answers.push_back(editing.edit(rows, edit));
    editing.keep(transaction, rows.now());
    commit(rows, true);
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

std::vector<PastContent> PostgresqlQueue::do_past_contents(const MessageKey& key) {
  const Statement select{fmt::format("{}_past_contents", name_),
                         parts_.names.fill(kSelectPastContents, name_)};
  const Parameters which = Parameters()
                               .add(sql::storage_key(key))
                               .add(std::string_view(key.source.str()))
                               .add(std::string_view(key.message_id.str()));
  const Result rows = run_alone(parts_.pool, select, which, Exchange::changes_nothing);
  std::vector<PastContent> past;
  for (int row = 0; row < rows.rows(); ++row)
    past.push_back(sql::read_past_content(ResultRow(rows, row)));
  return past;
}

}  // namespace oncebox::postgresql
