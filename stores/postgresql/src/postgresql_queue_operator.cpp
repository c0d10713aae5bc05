#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "filter_sql.hpp"
#include "oncebox/driver/answer_room.hpp"
#include "oncebox/driver/list_cursor.hpp"
#include "oncebox/sql/read_rows.hpp"
#include "oncebox/sql/state_sql.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "postgresql_queue.hpp"
#include "queue_report.hpp"

namespace oncebox::postgresql {

namespace {

bool names_one_message(const MessageFilter& filter) { return filter.source && filter.message_id; }

bool wants(const MessageFilter& filter, Status status) {
  const std::vector<Status> statuses = sql::wanted_statuses(filter);
  return statuses.empty() || std::find(statuses.begin(), statuses.end(), status) != statuses.end();
}

/// The columns before those of a row: the time, the place, and how many are found or its bytes.
constexpr int kColumnsBeforeRow = 3;
/// Messages whose attempts are read at once: they have up to two megabytes each.
constexpr std::size_t kAttemptsOf = 8;

std::string look_up_each_state() {
  return fmt::format("CROSS JOIN LATERAL ({}) s", state_of_message());
}
constexpr std::string_view kJoinAllStates = "JOIN {state} s ON s.id = m.id";

/// Of these keys, as their rows are now; without a filter all do.
std::vector<bool> which_match(std::span<const MessageKey> keys,
                              const std::optional<MessageFilter>& filter, RowBatch& rows,
                              std::span<const TopicPattern> paused) {
  std::vector<bool> matching(keys.size(), true);
  if (!filter) return matching;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const RowBatch::Row* const row = rows.find(keys[i]);
    matching[i] = row != nullptr && sql::matches(*filter, *row, paused, rows.now());
  }
  return matching;
}

}  // namespace

std::optional<TimePoint> PostgresqlQueue::do_next_due(const TopicSelection& topics) {
  const std::optional<TimePoint> due =
      read_next_due(parts_.pool, parts_.names, name_, topics, test_time(), floors_.lapsed());
  return policies_.next_due(topics, due, test_time());
}

// Statements of their own, because few messages have any.
void PostgresqlQueue::add_attempts(std::vector<std::optional<MessageRecord>>& records,
                                   std::span<const std::size_t> places, std::size_t max_bytes) {
  std::size_t bytes = 0;
  while (!places.empty() && bytes <= max_bytes) {
    const auto some = places.first(std::min(kAttemptsOf, places.size()));
    places = places.subspan(some.size());
    std::map<Uuid, std::vector<Attempt>*> by_key;
    ArrayValue array(SqlType::uuid);
    for (const std::size_t place : some) {
      const sql::StorageKey storage_key = sql::storage_key(records[place]->key);
      array.add(storage_key);
      by_key.emplace(Uuid(storage_key), &records[place]->attempts);
    }
    const Result rows = run_alone(parts_.pool, sql_.read_attempts,
                                  Parameters().add(std::move(array)), Exchange::changes_nothing);
    for (int row = 0; row < rows.rows(); ++row) {
      by_key.at(rows.uuid(row, 0))->push_back(sql::read_attempt(ResultRow(rows, row, 1)));
    }
    for (const std::size_t place : some) bytes += bytes_of(*records[place]);
  }
  if (!places.empty()) records.resize(places.front());
  AnswerRoom room(max_bytes);
  const auto has_no_room = [&](const std::optional<MessageRecord>& record) {
    return record && !room.take(bytes_of(*record));
  };
  records.erase(std::ranges::find_if(records, has_no_room), records.end());
}

std::vector<std::optional<MessageRecord>> PostgresqlQueue::do_find(std::span<const MessageKey> keys,
                                                                   const FindOptions& options) {
  const bool is_whole = options.payloads == ListPayloads::include;
  ArrayValue array(SqlType::uuid);
  for (const MessageKey& key : keys) array.add(sql::storage_key(key));
  Parameters parameters;
  parameters.add(std::move(array))
      .add(test_time())
      .add(static_cast<std::int64_t>(options.max_bytes));
  const Result rows = run_alone(parts_.pool, is_whole ? sql_.find_whole : sql_.find, parameters,
                                Exchange::changes_nothing);
  std::vector<std::optional<MessageRecord>> records(keys.size());
  if (rows.rows() == 0) return records;
  // Behind the last row there may be others that have no room.
  if (rows.rows() < rows.int64(0, 2)) {
    records.resize(static_cast<std::size_t>(rows.int64(rows.rows() - 1, 1)));
  }
  const KnownPolicies::Snapshot rules = policies_.read();
  std::vector<std::size_t> tried;  ///< the places of those that may have attempts
  for (int row = 0; row < rows.rows(); ++row) {
    const StoredMessage message = read_row(rows, row, kColumnsBeforeRow);
    const auto place = static_cast<std::size_t>(rows.int64(row, 1)) - 1;
    if (message.key != keys[place]) continue;
    records[place] = sql::to_record(message, rules->policies.paused(), rows.time(row, 0));
    if (is_whole && may_have_attempts(message.state)) tried.push_back(place);
  }
  add_attempts(records, tried, options.max_bytes);
  return records;
}

MessagePage PostgresqlQueue::do_list(const ListRequest& request) {
  const bool oldest_first = request.order == ListOrder::oldest_first;
  const std::string_view direction = oldest_first ? "ASC" : "DESC";
  const KnownPolicies::Snapshot rules = policies_.read();
  const std::span<const TopicPattern> paused = rules->policies.paused();
  FilterSql filter(request.filter, {test_time(), paused});
  if (request.after) {
    filter.require(oldest_first ? "m.id > ?::bigint" : "m.id < ?::bigint",
                   static_cast<std::int64_t>(number_of(*request.after, request.order)));
  }
  // One more than asked for tells whether there is a next page.
  // A page of all is soon found by looking at one after another. A page of those that are not done
  // may be far behind millions that are.
  const bool each = names_one_message(request.filter) || wants(request.filter, Status::done);
  const std::string page_sql = fmt::format(
      "SELECT {} AS now, m.id AS place, {} AS bytes, {} FROM {{message}} m {} {} ORDER BY m.id {} "
      "LIMIT {}",
      filter.now(), row_bytes(request.payloads), row_columns(request.payloads),
      each ? look_up_each_state() : std::string(kJoinAllStates), filter.where(), direction,
      request.limit + 1);
  const std::string sql = fmt::format(
      "SELECT * FROM (SELECT page.*, sum(bytes) OVER (ORDER BY place {1}) AS total, "
      "count(*) OVER () AS found FROM ({0}) page) sized "
      "WHERE total <= {2} OR total = bytes ORDER BY place {1}",
      page_sql, direction, request.max_bytes);
  const Result rows = run_report(parts_.pool, parts_.names.fill(sql, name_), filter.parameters());
  MessagePage page;
  for (int row = 0; row < rows.rows() && page.records.size() < request.limit; ++row) {
    const StoredMessage message = read_row(rows, row, kColumnsBeforeRow);
    page.records.push_back(sql::to_record(message, paused, rows.time(row, 0)));
    const bool is_last = row + 1 == rows.int64(row, rows.columns() - 1);
    page.next.reset();
    if (!is_last) page.next = list_cursor(static_cast<std::uint64_t>(message.id), request.order);
  }
  return page;
}

std::size_t PostgresqlQueue::do_count(const MessageFilter& filter) {
  const KnownPolicies::Snapshot rules = policies_.read();
  const FilterSql conditions(filter, {test_time(), rules->policies.paused()});
  const std::string sql =
      fmt::format("SELECT count(*) FROM {{message}} m {} {}",
                  names_one_message(filter) ? look_up_each_state() : std::string(kJoinAllStates),
                  conditions.where());
  const Result rows =
      run_report(parts_.pool, parts_.names.fill(sql, name_), conditions.parameters());
  return static_cast<std::size_t>(rows.int64(0, 0));
}

QueueStats PostgresqlQueue::do_stats() {
  const KnownPolicies::Snapshot rules = policies_.read();
  QueueStats stats = read_stats(parts_.pool, parts_.names, name_, test_time());
  count_pauses(stats, rules->policies.paused());
  return stats;
}

std::vector<WorkerRecord> PostgresqlQueue::do_workers() {
  return read_workers(parts_.pool, parts_.names, name_, test_time());
}

std::vector<ReviveOutcome> PostgresqlQueue::do_revive(std::span<const MessageKey> keys,
                                                      const ReviveOptions& options) {
  return revive_those(keys, std::nullopt, options);
}

std::vector<ReviveOutcome> PostgresqlQueue::revive_those(std::span<const MessageKey> keys,
                                                         const std::optional<MessageFilter>& only,
                                                         const ReviveOptions& options) {
  auto outcomes = in_rows({}, [&](RowBatch& rows, Transaction&) {
    rows.load(keys, RowBatch::NewRows::none);
    const std::vector<bool> meant = which_match(keys, only, rows, {});  // no pause shows on a death
    std::vector<ReviveOutcome> answers;
    answers.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      RowBatch::Row* const row = rows.find(keys[i]);
      if (row == nullptr) {
        answers.push_back(ReviveOutcome::unknown);
      } else if (row->state.status != Status::dead || !meant[i]) {
        answers.push_back(ReviveOutcome::not_dead);
      } else {
        sql::revive(row->state, options, rows.now());
        RowBatch::save(*row);
        answers.push_back(ReviveOutcome::revived);
      }
    }
    commit(rows, true);
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

std::vector<ActOutcome> PostgresqlQueue::do_act(std::span<const MessageKey> keys,
                                                const OperatorAction& action,
                                                const ActOptions& options) {
  auto outcomes = in_rows({}, [&](RowBatch& rows, Transaction& transaction) {
    rows.load(keys, RowBatch::NewRows::none);
    const KnownPolicies::Snapshot rules = policies_.read(transaction);
    const std::string error = cancellation_text(options.reason);
    const std::span<const TopicPattern> paused = rules->policies.paused();
    const std::vector<bool> meant = which_match(keys, options.only, rows, paused);
    std::vector<ActOutcome> answers;
    answers.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      RowBatch::Row* const row = rows.find(keys[i]);
      if (row == nullptr || !meant[i]) {
        answers.push_back(row == nullptr ? ActOutcome::unknown : ActOutcome::refused);
        continue;
      }
      const ShownState shown = sql::shown_state(*row, paused, rows.now());
      std::optional<Attempt> ended = cancelled_attempt(row->state, action, error, rows.now());
      const ActEffect effect = apply_action(row->state, action, shown, error, rows.now());
      if (effect == ActEffect::changed) RowBatch::save(*row, std::move(ended));
      if (effect == ActEffect::removed) RowBatch::remove(*row);
      answers.push_back(outcome_of(effect));
    }
    commit(rows, true);
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

std::size_t PostgresqlQueue::do_act_matching(const MessageFilter& filter,
                                             const OperatorAction& action, std::size_t limit,
                                             const ActOptions& options) {
  const std::vector<MessageKey> keys = matching(filter, limit);
  if (keys.empty()) return 0;
  const ActOptions those{.reason = options.reason, .only = filter};
  return static_cast<std::size_t>(
      std::ranges::count(do_act(keys, action, those), ActOutcome::changed));
}

std::vector<MessageKey> PostgresqlQueue::matching(const MessageFilter& filter, std::size_t limit) {
  const KnownPolicies::Snapshot rules = policies_.read();
  const FilterSql conditions(filter, {test_time(), rules->policies.paused()});
  const std::string sql =
      fmt::format("SELECT m.source, m.message_id FROM {{message}} m {} {} ORDER BY m.id LIMIT {}",
                  names_one_message(filter) ? look_up_each_state() : std::string(kJoinAllStates),
                  conditions.where(), limit);
  const Result rows =
      run_report(parts_.pool, parts_.names.fill(sql, name_), conditions.parameters());
  std::vector<MessageKey> keys;
  for (int number = 0; number < rows.rows(); ++number) {
    const ResultRow row(rows, number);
    keys.push_back({row.text(0), row.text(1)});
  }
  return keys;
}

std::size_t PostgresqlQueue::do_revive_matching(const MessageFilter& filter,
                                                const ReviveOptions& options, std::size_t limit) {
  const MessageFilter dead = only_dead(filter);
  const std::vector<MessageKey> keys = matching(dead, limit);
  if (keys.empty()) return 0;
  return static_cast<std::size_t>(
      std::ranges::count(revive_those(keys, dead, options), ReviveOutcome::revived));
}

CleanupResult PostgresqlQueue::do_cleanup(const CleanupRequest& request) {
  const auto remove = [&](const Statement& statement, Duration retention, std::size_t limit,
                          Transaction& transaction) {
    Parameters parameters;
    parameters.add(test_time())
        .add(std::int64_t{retention.count()})
        .add(static_cast<std::int32_t>(limit));
    return static_cast<std::size_t>(transaction.run(statement, parameters).int64(0, 0));
  };
  return in_transaction(parts_.pool, [&](Transaction& transaction) {
    CleanupResult result;
    // Half of them from each table, and what the second leaves once more from the first.
    for (const auto& [statement, limit] : {std::pair(&sql_.clean_up_done, (request.limit + 1) / 2),
                                           std::pair(&sql_.runs.clean_up, request.limit),
                                           std::pair(&sql_.clean_up_done, request.limit)}) {
      if (result.done_removed >= limit) continue;
      result.done_removed +=
          remove(*statement, request.done_retention, limit - result.done_removed, transaction);
    }
    if (request.dead_retention && result.done_removed < request.limit) {
      result.dead_removed = remove(sql_.clean_up_dead, *request.dead_retention,
                                   request.limit - result.done_removed, transaction);
    }
    const Parameters none;
    const Parameters retention =
        Parameters().add(test_time()).add(std::int64_t{Duration(kWorkerRetention).count()});
    const std::array last{Command{&sql_.add_up_done, &none},
                          Command{&sql_.forget_workers, &retention}};
    transaction.commit(last);
    return result;
  });
}

}  // namespace oncebox::postgresql
