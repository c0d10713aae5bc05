#include "queue_row.hpp"

#include <fmt/format.h>

#include "oncebox/sql/header_json.hpp"

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
  payload,
};
}  // namespace column

constexpr std::string_view kColumns = R"sql(
m.id, m.source, m.message_id, m.first_seen_at, m.due_at, m.expires_at, m.priority, m.topic,
m.headers, m.hash_algorithm, m.hash, m.partition_key, s.stage, s.enqueue_order, s.eligible_at,
s.last_seen_at, s.owner, s.delivery, s.locked_until, s.finished_at, s.backoff_until, s.attempt,
s.deliveries, s.lapses, s.content_version, s.claimed_version, s.duplicates, s.revivals,
s.revived_at, s.revival_reason, s.last_error, {})sql";

/// One row of a result, by the names of its columns.
class Fields {
 public:
  Fields(const Result& result, int row, int first) : result_(result), row_(row), first_(first) {}

  [[nodiscard]] bool is_null(int column) const { return result_.is_null(row_, first_ + column); }
  [[nodiscard]] int smallint(int column) const {
    return result_.small_integer(row_, first_ + column);
  }
  [[nodiscard]] int integer(int column) const { return result_.integer(row_, first_ + column); }
  [[nodiscard]] std::int64_t bigint(int column) const {
    return result_.bigint(row_, first_ + column);
  }
  [[nodiscard]] TimePoint time(int column) const { return result_.time(row_, first_ + column); }
  [[nodiscard]] std::optional<TimePoint> optional_time(int column) const {
    return result_.optional_time(row_, first_ + column);
  }
  [[nodiscard]] std::string_view bytes(int column) const {
    return result_.bytes(row_, first_ + column);
  }
  [[nodiscard]] std::optional<std::string> optional_text(int column) const {
    return result_.optional_text(row_, first_ + column);
  }
  [[nodiscard]] Uuid uuid(int column) const { return result_.uuid(row_, first_ + column); }

 private:
  const Result& result_;
  const int row_;
  const int first_;
};

MessageHistory read_history(const Fields& row) {
  return {.attempt = row.integer(column::attempt),
          .deliveries = row.integer(column::deliveries),
          .lapses = row.integer(column::lapses),
          .duplicates = row.integer(column::duplicates),
          .content_version = row.integer(column::content_version),
          .first_seen_at = row.time(column::first_seen_at),
          .last_seen_at = row.time(column::last_seen_at),
          .last_error = row.optional_text(column::last_error)};
}

MessageState read_state(const Fields& row) {
  MessageState state{
      .status = status_of(static_cast<Stage>(row.smallint(column::stage))),
      .priority = Priority(row.smallint(column::priority)),
      .due_at = row.optional_time(column::due_at),
      .expires_at = row.optional_time(column::expires_at),
      .backoff_until = row.optional_time(column::backoff_until).value_or(TimePoint{}),
      .eligible_at = row.time(column::eligible_at),
      .history = read_history(row),
      .claimed_version = row.integer(column::claimed_version),
      .finished_at = row.optional_time(column::finished_at),
      .revivals = {.count = row.integer(column::revivals),
                   .last_at = row.optional_time(column::revived_at),
                   .last_reason = row.optional_text(column::revival_reason)},
      .enqueue_order = static_cast<std::uint64_t>(row.bigint(column::enqueue_order))};
  if (!row.is_null(column::hash)) {
    state.hash.emplace(std::string(row.bytes(column::hash_algorithm)),
                       std::string(row.bytes(column::hash)));
  }
  if (!row.is_null(column::partition_key)) {
    state.partition_key.emplace(row.bytes(column::partition_key));
  }
  if (!row.is_null(column::owner)) {
    state.lease = MessageLease{
        .owner = OwnerToken(row.uuid(column::owner)),
        .delivery = DeliveryNumber{static_cast<std::uint64_t>(row.bigint(column::delivery))},
        .locked_until = row.time(column::locked_until)};
  }
  return state;
}

std::optional<std::string_view> view_of(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  return std::string_view(*text);
}

}  // namespace

std::string row_columns(ListPayloads payloads) {
  return fmt::format(fmt::runtime(kColumns),
                     payloads == ListPayloads::include ? "m.payload" : "NULL::bytea");
}

StoredMessage read_row(const Result& result, int number, int first) {
  const Fields row(result, number, first);
  StoredMessage message{.id = row.bigint(column::id),
                        .key = {row.bytes(column::source), row.bytes(column::message_id)},
                        .state = read_state(row)};
  if (!row.is_null(column::topic)) {
    message.content = sql::Content{
        .topic = row.bytes(column::topic), .payload = row.bytes(column::payload), .headers = {}};
    if (!row.is_null(column::headers)) {
      message.content->headers = sql::headers_from_json(row.bytes(column::headers));
    }
  }
  return message;
}

Stage stage_of(const MessageState& state, TimePoint now) noexcept {
  switch (state.status) {
    case Status::seen:
      return Stage::seen;
    case Status::done:
      return Stage::done;
    case Status::dead:
      return Stage::dead;
    case Status::processing:
      break;
  }
  if (state.enqueue_order == 0) return Stage::without_content;
  if (state.lease) return Stage::leased;
  if (state.partition_key) return Stage::blocked;
  return state.eligible_at > now ? Stage::exposed : Stage::returned;
}

void put_work(RowArrays& rows, const StoredMessage& message, Stage stage, int payload_bytes) {
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
      .put(std::int32_t{payload_bytes})
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
