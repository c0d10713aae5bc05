#include "queue_row.hpp"

#include <fmt/format.h>

#include <utility>

#include "oncebox/sql/read_rows.hpp"

namespace oncebox::postgresql {

namespace {

// In the order in which `row_columns` names them.
namespace column {
enum Column : int {
  id,
  source,
  message_id,
  first_seen_at,
  due_at,
  expires_at,
  priority,
  topic,
  headers,
  hash_algorithm,
  hash,
  partition_key,
  stage,
  enqueue_order,
  eligible_at,
  last_seen_at,
  owner,
  delivery,
  locked_until,
  finished_at,
  backoff_until,
  attempt,
  deliveries,
  lapses,
  content_version,
  claimed_version,
  duplicates,
  revivals,
  revived_at,
  revival_reason,
  last_error,
  leased_at,
  worker,
  payload,
};
}  // namespace column

constexpr std::string_view kColumns = R"sql(
m.id, m.source, m.message_id, m.first_seen_at, m.due_at, m.expires_at, m.priority, m.topic,
{headers}, m.hash_algorithm, m.hash, m.partition_key, s.stage, s.enqueue_order, s.eligible_at,
s.last_seen_at, s.owner, s.delivery, s.locked_until, s.finished_at, s.backoff_until, s.attempt,
s.deliveries, s.lapses, s.content_version, s.claimed_version, s.duplicates, s.revivals,
s.revived_at, s.revival_reason, s.last_error, s.leased_at, {worker}, {payload})sql";

// Only of one that is leased: elsewhere the number is of an earlier lease.
constexpr std::string_view kWorkerName =
    "CASE s.stage WHEN 3 THEN (SELECT name FROM {worker} WHERE id = s.worker) END";

std::optional<std::string_view> view_of(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  return std::string_view(*text);
}

constexpr std::string_view kNoHeaders = "NULL::text";
constexpr std::string_view kNoPayload = "NULL::bytea";

std::string columns(std::string_view headers, std::string_view worker, std::string_view payload) {
  return fmt::format(fmt::runtime(kColumns), fmt::arg("headers", headers),
                     fmt::arg("worker", worker), fmt::arg("payload", payload));
}

}  // namespace

std::string row_columns(ListPayloads payloads) {
  return columns("m.headers", kWorkerName,
                 payloads == ListPayloads::include ? "m.payload" : kNoPayload);
}

std::string state_columns() { return columns(kNoHeaders, kWorkerName, kNoPayload); }

std::string_view row_bytes(ListPayloads payloads) noexcept {
  return payloads == ListPayloads::include
             ? "(coalesce(octet_length(m.payload), 0) + coalesce(octet_length(m.headers), 0))"
             : "coalesce(octet_length(m.headers), 0)";
}

// Where nothing is escaped, the JSON of each header has four quotation marks, a colon and a comma
// besides name and value; the two braces and the comma that the last one lacks are one more.
std::string_view claim_bytes() noexcept {
  return R"sql((coalesce(octet_length(payload), 0) +
    CASE WHEN headers IS NULL THEN 0
         WHEN strpos(headers, E'\\') = 0
         THEN octet_length(headers) - 1
              - 3 * (octet_length(headers) - octet_length(replace(headers, '"', ''))) / 2
         ELSE (SELECT coalesce(sum(octet_length(h.key) + octet_length(h.value)), 0)::integer
                 FROM json_each_text(headers::json) h) END))sql";
}

std::string claimed_columns() { return columns("m.headers", "NULL::text", "m.payload"); }

StoredMessage read_row(const Result& result, int number, int first) {
  const ResultRow row(result, number, first);
  std::optional<Topic> topic;
  if (!row.is_null(column::topic)) topic.emplace(row.text(column::topic));
  return sql::read_message<column::Column>(row, static_cast<Stage>(row.int16(column::stage)),
                                           Priority(row.int16(column::priority)), std::move(topic));
}

Stage stage_of(const MessageState& state, TimePoint now) noexcept {
  const Stage stage = sql::stage_of(state);
  return stage == Stage::exposed && state.eligible_at <= now ? Stage::returned : stage;
}

void put_work(RowArrays& rows, const StoredMessage& message, Stage stage, int bytes) {
  const MessageState& state = message.state;
  const MessageHistory& history = state.history;
  const std::optional<MessageLease>& lease = state.lease;
  using OptionalTime = std::optional<TimePoint>;
  rows.put(message.id)
      .put(static_cast<std::int64_t>(state.enqueue_order))
      .put(state.eligible_at)
      .put(history.last_seen_at)
      .put(lease ? OptionalTime(lease->locked_until) : OptionalTime())
      .put(lease ? std::optional(static_cast<std::int64_t>(lease->delivery)) : std::nullopt)
      .put(state.due_at)
      .put(state.expires_at)
      .put(state.backoff_until > TimePoint{} ? OptionalTime(state.backoff_until) : OptionalTime())
      .put(state.finished_at)
      .put(state.revivals.last_at)
      .put(std::int32_t{bytes})
      .put(std::int32_t{history.attempt})
      .put(std::int32_t{history.deliveries})
      .put(std::int32_t{history.lapses})
      .put(std::int32_t{history.content_version})
      .put(std::int32_t{state.claimed_version})
      .put(std::int32_t{history.duplicates})
      .put(std::int32_t{state.revivals.count})
      .put(static_cast<std::int16_t>(stage))
      .put(static_cast<std::int16_t>(state.priority.value()))
      .put(lease ? std::optional(lease->owner.uuid().bytes()) : std::nullopt)
      .put(message.content ? std::optional(std::string_view(message.content->topic.str()))
                           : std::nullopt)
      .put(text_of(state.partition_key))
      .put(view_of(state.revivals.last_reason))
      .put(view_of(history.last_error));
}

void put_done(RowArrays& rows, const StoredMessage& message) {
  const MessageState& state = message.state;
  const MessageHistory& history = state.history;
  rows.put(message.id)
      .put(state.finished_at)
      .put(history.last_seen_at)
      .put(static_cast<std::int64_t>(state.enqueue_order))
      .put(std::int32_t{history.attempt})
      .put(std::int32_t{history.deliveries})
      .put(std::int32_t{history.lapses})
      .put(std::int32_t{history.content_version})
      .put(std::int32_t{history.duplicates})
      .put(std::int32_t{state.revivals.count})
      .put(state.revivals.last_at)
      .put(view_of(state.revivals.last_reason))
      .put(view_of(history.last_error));
}

}  // namespace oncebox::postgresql
