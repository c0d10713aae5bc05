#include <fmt/format.h>

#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/sql/read_rows.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "sqlite_queue.hpp"

namespace oncebox::sqlite {

namespace {

std::string select_past_contents(std::string_view queue) {
  return fmt::format(R"sql(
SELECT p.content_version, p.payload, p.hash_algorithm, p.hash, p.replaced_at, p.replaced_by,
       p.reason
  FROM oncebox_{0}_past_content p
  JOIN oncebox_{0}_message m ON m.id = p.id
 WHERE p.id IN ({1}) AND m.source = ?2 AND m.message_id = ?3
 ORDER BY p.content_version)sql",
                     queue, ids_of_key(queue, "?1"));
}

}  // namespace

ReviveOutcome SqliteQueue::revive_edited_one(const EditedMessage& edit,
                                             const ReviveOptions& options, TimePoint now) {
  std::optional<QueueRow> row = table_.find(edit.key);
  if (!row) return ReviveOutcome::unknown;
  if (row->stage != Stage::dead) return ReviveOutcome::not_dead;
  if (!row->content) return ReviveOutcome::no_content;
  require_room_for_past_content(table_.past_content_totals(*row), row->content->payload.size());
  table_.keep(*row, sql::revive_edited(*row, edit.payload, options, now));
  table_.save_content(*row);
  table_.save(*row);
  return ReviveOutcome::revived;
}

std::vector<ReviveOutcome> SqliteQueue::do_revive_edited(std::span<const EditedMessage> edits,
                                                         const ReviveOptions& options) {
  for (const EditedMessage& edit : edits) {
    require_payload_size(edit.payload.size(), max_payload_bytes_);
  }
  auto outcomes = write(Flush::required, [&](TimePoint now) {
    std::vector<ReviveOutcome> answers;
    answers.reserve(edits.size());
    for (const EditedMessage& edit : edits) {
      answers.push_back(revive_edited_one(edit, options, now));
    }
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

std::vector<PastContent> SqliteQueue::do_past_contents(const MessageKey& key) {
  return parts_.readers.run([&](Connection& reader) {
    const sql::StorageKey storage_key = sql::storage_key(key);
    Statement rows = reader.prepare(select_past_contents(name_));
    rows.bind_blob(1, storage_key)
        .bind(2, std::string_view(key.source.str()))
        .bind(3, std::string_view(key.message_id.str()));
    std::vector<PastContent> past;
    while (rows.step()) past.push_back(sql::read_past_content(rows));
    return past;
  });
}

}  // namespace oncebox::sqlite
