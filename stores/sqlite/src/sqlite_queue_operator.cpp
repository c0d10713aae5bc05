#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "filter_sql.hpp"
#include "oncebox/driver/answer_room.hpp"
#include "oncebox/driver/list_cursor.hpp"
#include "queue_report.hpp"
#include "sqlite_queue.hpp"

namespace oncebox::sqlite {

MessagePage SqliteQueue::do_list(const ListRequest& request) {
  const bool oldest_first = request.order == ListOrder::oldest_first;
  const std::vector<TopicPattern> paused = paused_topics();
  const TimePoint now = parts_.clock.now();
  FilterSql filter(request.filter, name_, {now, paused});
  if (request.after) {
    filter.require(oldest_first ? "m.id > ?" : "m.id < ?",
                   static_cast<std::int64_t>(number_of(*request.after, request.order)));
  }
  // One more than asked for tells whether there is a next page.
  const std::string conditions = fmt::format("{} ORDER BY m.id {} LIMIT {}", filter.where(),
                                             oldest_first ? "ASC" : "DESC", request.limit + 1);
  return parts_.readers.run([&](Connection& reader) {
    Statement rows = reader.prepare(select_rows(name_, request.payloads, conditions));
    filter.bind_to(rows);
    TopicNames topics(reader);
    MessagePage page;
    AnswerRoom room(request.max_bytes);
    std::int64_t last = 0;
    while (rows.step()) {
      // Unless this one is on the page, too.
      page.next = list_cursor(static_cast<std::uint64_t>(last), request.order);
      if (page.records.size() == request.limit) break;
      const QueueRow row = read_row(rows, topics);
      MessageRecord record = to_record(row, paused, now);
      if (!room.take(bytes_of(record))) break;
      page.next.reset();
      last = row.id;
      page.records.push_back(std::move(record));
    }
    return page;
  });
}

std::size_t SqliteQueue::do_count(const MessageFilter& filter) {
  const std::vector<TopicPattern> paused = paused_topics();
  const FilterSql conditions(filter, name_, {parts_.clock.now(), paused});
  const std::string sql = fmt::format(
      "SELECT count(*) FROM oncebox_{0}_message m JOIN oncebox_{0}_state s ON s.id = m.id {1}",
      name_, conditions.where());
  return parts_.readers.run([&](Connection& reader) {
    Statement count = reader.prepare(sql);
    conditions.bind_to(count);
    return count.step() ? static_cast<std::size_t>(count.int64(0)) : std::size_t{0};
  });
}

QueueStats SqliteQueue::do_stats() {
  const std::vector<TopicPattern> paused = paused_topics();
  const TimePoint now = parts_.clock.now();
  QueueStats stats =
      parts_.readers.run([&](Connection& reader) { return read_stats(reader, name_, now); });
  count_pauses(stats, paused);
  return stats;
}

std::vector<TopicPattern> SqliteQueue::paused_topics() {
  return parts_.policies.policies(kind_).paused();
}

std::vector<WorkerRecord> SqliteQueue::do_workers() {
  const TimePoint now = parts_.clock.now();
  return parts_.readers.run([&](Connection& reader) { return read_workers(reader, name_, now); });
}

void SqliteQueue::revive_row(QueueRow& row, const ReviveOptions& options, TimePoint now) {
  sql::revive(row.state, options, now);
  table_.save(row);
}

std::vector<ReviveOutcome> SqliteQueue::do_revive(std::span<const MessageKey> keys,
                                                  const ReviveOptions& options) {
  auto outcomes = write(Flush::required, [&](TimePoint now) {
    std::vector<ReviveOutcome> answers;
    answers.reserve(keys.size());
    for (const MessageKey& key : keys) {
      std::optional<QueueRow> row = table_.find(key);
      if (!row) {
        answers.push_back(ReviveOutcome::unknown);
      } else if (row->stage != Stage::dead) {
        answers.push_back(ReviveOutcome::not_dead);
      } else {
        revive_row(*row, options, now);
        answers.push_back(ReviveOutcome::revived);
      }
    }
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

std::vector<std::int64_t> SqliteQueue::matching(const MessageFilter& filter, std::size_t limit,
                                                TimePoint now) {
  const std::span<const TopicPattern> paused = parts_.policies.current(kind_).paused();
  const FilterSql conditions(filter, name_, {now, paused});
  Statement found = parts_.connection.prepare(fmt::format(
      "SELECT m.id FROM oncebox_{0}_message m JOIN oncebox_{0}_state s ON s.id = m.id {1} "
      "ORDER BY m.id LIMIT {2}",
      name_, conditions.where(), limit));
  conditions.bind_to(found);
  std::vector<std::int64_t> ids;
  while (found.step()) ids.push_back(found.int64(0));
  return ids;
}

std::size_t SqliteQueue::do_revive_matching(const MessageFilter& filter,
                                            const ReviveOptions& options, std::size_t limit) {
  const std::size_t revived = write(Flush::required, [&](TimePoint now) {
    const std::vector<std::int64_t> ids = matching(only_dead(filter), limit, now);
    for (const std::int64_t id : ids) {
      QueueRow row = table_.get(id);
      revive_row(row, options, now);
    }
    return ids.size();
  });
  if (revived > 0) listeners_.notify();
  return revived;
}

std::vector<ActOutcome> SqliteQueue::do_act(std::span<const MessageKey> keys,
                                            const OperatorAction& action,
                                            const ActOptions& options) {
  auto outcomes = write(Flush::required, [&](TimePoint now) {
    const std::vector<bool> meant = which_match(keys, options.only, now);
    std::vector<ActOutcome> answers;
    answers.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::optional<QueueRow> row = table_.find(keys[i]);
      answers.push_back(!row       ? ActOutcome::unknown
                        : meant[i] ? act_on(*row, action, options, now)
                                   : ActOutcome::refused);
    }
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

std::size_t SqliteQueue::do_act_matching(const MessageFilter& filter, const OperatorAction& action,
                                         std::size_t limit, const ActOptions& options) {
  const std::size_t changed = write(Flush::required, [&](TimePoint now) {
    const std::vector<std::int64_t> ids = matching(filter, limit, now);
    for (const std::int64_t id : ids) {
      QueueRow row = table_.get(id);
      act_on(row, action, options, now);
    }
    return ids.size();
  });
  listeners_.notify();
  return changed;
}

std::vector<bool> SqliteQueue::which_match(std::span<const MessageKey> keys,
                                           const std::optional<MessageFilter>& filter,
                                           TimePoint now) {
  std::vector<bool> matching(keys.size(), true);
  if (!filter) return matching;
  const std::span<const TopicPattern> paused = parts_.policies.current(kind_).paused();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::optional<QueueRow> row = table_.find(keys[i]);
    matching[i] = row && sql::matches(*filter, *row, paused, now);
  }
  return matching;
}

ActOutcome SqliteQueue::act_on(QueueRow& row, const OperatorAction& action,
                               const ActOptions& options, TimePoint now) {
  const ShownState shown = sql::shown_state(row, parts_.policies.current(kind_).paused(), now);
  std::string error = cancellation_text(options.reason);
  const std::optional<Attempt> ended = cancelled_attempt(row.state, action, error, now);
  const ActEffect effect = apply_action(row.state, action, shown, std::move(error), now);
  if (effect == ActEffect::changed) save(row, ended);
  if (effect == ActEffect::removed) table_.remove(row);
  return outcome_of(effect);
}

CleanupResult SqliteQueue::do_cleanup(const CleanupRequest& request) {
  return write(Flush::required, [&](TimePoint now) {
    const auto remove_all = [&](const std::vector<std::int64_t>& ids) {
      for (const std::int64_t id : ids) table_.remove(table_.get(id));
      return ids.size();
    };
    CleanupResult result;
    result.done_removed =
        remove_all(table_.finished(Stage::done, now - request.done_retention, request.limit));
    if (request.dead_retention && result.done_removed < request.limit) {
      result.dead_removed = remove_all(table_.finished(Stage::dead, now - *request.dead_retention,
                                                       request.limit - result.done_removed));
    }
    table_.forget_workers(now);
    if (result.total() > 0) give_pages_back();
    return result;
  });
}

// What was removed leaves free pages, which new messages fill. Only when much more is free than a
// steady load needs does the file shrink, a little with each call, so that none takes long.
void SqliteQueue::give_pages_back() {
  constexpr std::int64_t kMinFreePages = 4'096;
  constexpr int kPagesAtATime = 1'024;
  const std::int64_t free_pages = parts_.connection.query_integer("PRAGMA freelist_count");
  const std::int64_t pages = parts_.connection.query_integer("PRAGMA page_count");
  if (free_pages < kMinFreePages || free_pages < pages / 4) return;
  parts_.connection.execute(fmt::format("PRAGMA incremental_vacuum({})", kPagesAtATime));
}

}  // namespace oncebox::sqlite
