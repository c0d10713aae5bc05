#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "oncebox/audit_trail.hpp"
#include "oncebox/driver/key_state.hpp"
#include "oncebox/driver/list_cursor.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sql/attempt_code.hpp"
#include "oncebox/sql/audit_words.hpp"
#include "oncebox/sql/header_json.hpp"
#include "oncebox/sql/key_status.hpp"
#include "oncebox/sql/stage.hpp"
#include "oncebox/sql/stored_message.hpp"

/// Rows of the tables that every SQL store has, read into the types of the contracts. `Row` answers
/// the column at a place: `is_null`, `int32`, `int64`, `time`, `text`, `blob`, `uuid` (nil when it
/// is none), `optional_time` and `optional_text`. `Column` is the store's enum of the places of its
/// columns.
namespace oncebox::sql {

template <class Column, class Row>
MessageHistory read_history(const Row& row) {
  return {.attempt = row.int32(Column::attempt),
          .deliveries = row.int32(Column::deliveries),
          .lapses = row.int32(Column::lapses),
          .duplicates = row.int32(Column::duplicates),
          .content_version = row.int32(Column::content_version),
          .first_seen_at = row.time(Column::first_seen_at),
          .last_seen_at = row.time(Column::last_seen_at),
          .last_error = row.optional_text(Column::last_error)};
}

template <class Column, class Row>
MessageLease read_lease(const Row& row) {
  const Uuid owner = row.uuid(Column::owner);
  if (owner.is_nil()) {
    throw Error(ErrorCode::corrupt, "the stored owner of a message is no UUID");
  }
  MessageLease lease{
      .owner = OwnerToken(owner),
      .delivery = DeliveryNumber{static_cast<std::uint64_t>(row.int64(Column::delivery))},
      .locked_until = row.time(Column::locked_until),
      .leased_at = row.optional_time(Column::leased_at)};
  if (!row.is_null(Column::worker)) lease.worker.emplace(row.text(Column::worker));
  return lease;
}

template <class Column, class Row>
MessageState read_state(const Row& row, Stage stage, Priority priority) {
  MessageState state{
      .status = status_of(stage),
      .priority = priority,
      .due_at = row.optional_time(Column::due_at),
      .expires_at = row.optional_time(Column::expires_at),
      .backoff_until = row.optional_time(Column::backoff_until).value_or(TimePoint{}),
      .eligible_at = row.time(Column::eligible_at),
      .history = read_history<Column>(row),
      .claimed_version = row.int32(Column::claimed_version),
      .finished_at = row.optional_time(Column::finished_at),
      .revivals = {.count = row.int32(Column::revivals),
                   .last_at = row.optional_time(Column::revived_at),
                   .last_reason = row.optional_text(Column::revival_reason)},
      .enqueue_order = static_cast<std::uint64_t>(row.int64(Column::enqueue_order))};
  if (!row.is_null(Column::hash)) {
    state.hash.emplace(std::string(row.text(Column::hash_algorithm)),
                       std::string(row.blob(Column::hash)));
  }
  if (!row.is_null(Column::partition_key)) {
    state.partition_key.emplace(row.text(Column::partition_key));
  }
  if (!row.is_null(Column::owner)) state.lease = read_lease<Column>(row);
  return state;
}

/// A message of a queue; without a topic it was never enqueued.
template <class Column, class Row>
StoredMessage read_message(const Row& row, Stage stage, Priority priority,
                           std::optional<Topic> topic) {
  StoredMessage message{.id = row.int64(Column::id),
                        .key = {row.text(Column::source), row.text(Column::message_id)},
                        .state = read_state<Column>(row, stage, priority)};
  if (stage == Stage::blocked) message.place = PartitionPlace::blocked;
  if (!topic) return message;
  message.content =
      Content{.topic = std::move(*topic), .payload = row.blob(Column::payload), .headers = {}};
  if (!row.is_null(Column::headers)) {
    message.content->headers = headers_from_json(row.text(Column::headers));
  }
  return message;
}

/// `SELECT content_version, payload, hash_algorithm, hash, replaced_at, replaced_by, reason`.
template <class Row>
PastContent read_past_content(const Row& row) {
  PastContent past{.content_version = row.int32(0),
                   .payload = row.blob(1),
                   .replaced_at = row.time(4),
                   .replaced_by = std::string(row.text(5)),
                   .reason = std::string(row.text(6))};
  if (!row.is_null(3)) past.hash.emplace(std::string(row.text(2)), std::string(row.blob(3)));
  return past;
}

/// `SELECT number, worker, begun_at, ended_at, outcome, error_kind, error`.
template <class Row>
Attempt read_attempt(const Row& row) {
  Attempt attempt{.number = row.int32(0),
                  .begun_at = row.optional_time(2),
                  .ended_at = row.time(3),
                  .outcome = attempt_outcome(row.int32(4)),
                  .error_kind = std::string(row.text(5)),
                  .error = std::string(row.text(6))};
  if (!row.is_null(1)) attempt.worker.emplace(row.text(1));
  return attempt;
}

/// `SELECT name, leases, since, last_seen_at`.
template <class Row>
WorkerRecord read_worker(const Row& row) {
  return {.name = row.text(0),
          .leases = static_cast<std::size_t>(row.int64(1)),
          .since = row.time(2),
          .last_seen_at = row.time(3)};
}

/// A key and the status that its row has. `corrupt(what)` throws, and says which row it is.
template <class Column, class Row, class Corrupt>
KeyState read_key_state(const Row& row, std::int64_t status_code, Corrupt corrupt) {
  const std::optional<KeyStatus> status = key_status(status_code);
  if (!status) corrupt("a key has no known status");
  KeyState state{.status = *status,
                 .attempts = row.int32(Column::attempts),
                 .first_seen_at = row.time(Column::first_seen_at),
                 .last_seen_at = row.time(Column::last_seen_at),
                 .owner = std::string(row.text(Column::owner)),
                 .lease_until = row.optional_time(Column::lease_until),
                 .keep_until = row.time(Column::keep_until),
                 .error = row.optional_text(Column::error)};
  if (!row.is_null(Column::lease_id)) {
    const Uuid uuid = row.uuid(Column::lease_id);
    if (uuid.is_nil()) corrupt("the stored lease id of a key is no UUID");
    state.lease_id = LeaseId(uuid);
  }
  return state;
}

/// `SELECT id, actor, action, part, subject, reason, begun_at, finished_at, status, changed,
/// detail`.
template <class Row>
AuditRecord read_audit_record(const Row& row) {
  AuditRecord record{.id = AuditId{static_cast<std::uint64_t>(row.int64(0))},
                     .entry = {.actor = std::string(row.text(1)),
                               .action = audit_action(row.text(2)),
                               .part = audited_part(row.text(3)),
                               .subject = std::string(row.text(4)),
                               .reason = std::string(row.text(5))},
                     .begun_at = row.time(6),
                     .finished_at = row.optional_time(7)};
  if (!row.is_null(8)) {
    record.result = AuditResult{.status = audit_status(row.text(8)),
                                .changed = static_cast<std::size_t>(row.int64(9)),
                                .detail = std::string(row.text(10))};
  }
  return record;
}

/// Adds the next row to a page of at most `limit` records. False when the page was full, and now
/// says where the next one begins.
template <class Row>
bool add_to_page(AuditPage& page, const Row& row, std::size_t limit) {
  if (page.records.size() == limit) {
    const auto last = static_cast<std::uint64_t>(page.records.back().id);
    page.next = list_cursor(last, ListOrder::newest_first);
    return false;
  }
  page.records.push_back(read_audit_record(row));
  return true;
}

}  // namespace oncebox::sql
