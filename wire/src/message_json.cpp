#include "oncebox/wire/message_json.hpp"

#include <utility>

#include "message_fields.hpp"
#include "payload_json.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 3> kStatusFields = {"status", "state", "waitingFor"};
constexpr std::array<std::string_view, 9> kRecordStateFields = {
    "worker",     "owner",      "delivery", "leasedAt", "lockedUntil",
    "eligibleAt", "finishedAt", "revivals", "attempts",
};
constexpr auto kRecordFields =
    joined(kMessageFields, kHistoryFields, kStatusFields, kRecordStateFields);
constexpr std::array<std::string_view, 3> kRevivalFields = {"count", "lastAt", "lastReason"};
constexpr std::array<std::string_view, 7> kAttemptFields = {
    "number", "worker", "begunAt", "endedAt", "outcome", "errorKind", "error",
};
constexpr std::array<std::string_view, 2> kPageFields = {"messages", "next"};

// A record needs about this much beside what people chose, an attempt likewise.
constexpr std::size_t kRecordBytes = 640;
constexpr std::size_t kAttemptBytes = 160;

Headers read_headers(const ObjectReader& fields, Direction direction) {
  Headers headers;
  const std::optional<JsonValue> object = fields.find("headers");
  if (!object) return headers;
  if (!object->is_object()) object->place().fail("an object was expected");
  for_each_member(object->json(), [&](std::string_view quoted_name, std::string_view member) {
    const std::string name = unescape(quoted_name);
    const JsonValue value(member, Place(object->place(), name));
    if (direction == Direction::request && headers.get(name)) {
      value.place().fail("this header is there twice");
    }
    const std::string text = value.text();
    reading_at(value.place(), [&] { return headers.set(name, text).size(); });
  });
  return headers;
}

MessageKey read_key(const ObjectReader& fields, const MessageDefaults* defaults,
                    std::size_t place_in_batch) {
  if (defaults == nullptr) return read_key(fields);
  std::optional<Source> source = fields.get<Source>("source");
  std::optional<MessageId> id = fields.get<MessageId>("messageId");
  if (!id && defaults->make_id) {
    id = reading_at(fields.place(), [&] { return defaults->make_id(place_in_batch); });
  }
  if (!id) id = fields.require_as<MessageId>("messageId");
  if (!source && defaults->on_default_source) defaults->on_default_source(place_in_batch);
  return {source ? std::move(*source) : defaults->source, std::move(*id)};
}

void add_default_headers(Headers& headers, const Headers& defaults, const Place& place) {
  for (const auto& [name, value] : defaults) {
    if (headers.get(name)) continue;
    reading_at(place, [&] { return headers.set(name, value).size(); });
  }
}

Message read_message(const JsonValue& value, const MessageDefaults& defaults,
                     std::size_t place_in_batch) {
  const ObjectReader fields(value, kMessageFields, Direction::request);
  Message message = read_message_fields(fields, Direction::request, &defaults, place_in_batch);
  message.request_id = defaults.request_id;
  return message;
}

std::optional<MessageLease> read_lease(const ObjectReader& fields) {
  const std::optional<OwnerToken> owner = fields.get<OwnerToken>("owner");
  if (!owner) return std::nullopt;
  return MessageLease{.owner = *owner,
                      .delivery = DeliveryNumber{fields.require_as<std::uint64_t>("delivery")},
                      .locked_until = fields.require_as<TimePoint>("lockedUntil"),
                      .leased_at = fields.get<TimePoint>("leasedAt"),
                      .worker = fields.get<WorkerName>("worker")};
}

std::optional<WaitingFor> read_waiting_for(const ObjectReader& fields) {
  const std::optional<JsonValue> value = fields.find("waitingFor");
  if (!value) return std::nullopt;
  return read_word<WaitingFor>(*value);
}

void write_attempt(JsonWriter& writer, const Attempt& attempt) {
  writer.begin_object()
      .field("number", attempt.number)
      .field("worker", attempt.worker)
      .field("begunAt", attempt.begun_at)
      .field("endedAt", attempt.ended_at)
      .field("outcome", word_of(attempt.outcome));
  if (!attempt.error_kind.empty()) writer.field("errorKind", attempt.error_kind);
  if (!attempt.error.empty()) writer.field("error", attempt.error);
  writer.end_object();
}

Attempt read_attempt(const JsonValue& value) {
  const ObjectReader fields(value, kAttemptFields, Direction::answer);
  return {.number = fields.require_as<int>("number"),
          .worker = fields.get<WorkerName>("worker"),
          .begun_at = fields.get<TimePoint>("begunAt"),
          .ended_at = fields.require_as<TimePoint>("endedAt"),
          .outcome = read_word<AttemptOutcome>(fields.require("outcome")),
          .error_kind = fields.get_or<std::string>("errorKind", ""),
          .error = fields.get_or<std::string>("error", "")};
}

std::vector<Attempt> read_attempts(const ObjectReader& fields) {
  std::vector<Attempt> attempts;
  if (const std::optional<JsonValue> array = fields.find("attempts")) {
    array->for_each_item(limits::kMaxKeptAttempts,
                         [&](const JsonValue& value) { attempts.push_back(read_attempt(value)); });
  }
  return attempts;
}

Revivals read_revivals(const ObjectReader& fields) {
  const std::optional<JsonValue> value = fields.find("revivals");
  if (!value) return {};
  const ObjectReader revivals(*value, kRevivalFields, Direction::answer);
  return {.count = revivals.require_as<int>("count"),
          .last_at = revivals.get<TimePoint>("lastAt"),
          .last_reason = revivals.get<std::string>("lastReason")};
}

}  // namespace

void write_key(JsonWriter& writer, const MessageKey& key) {
  writer.field("source", key.source).field("messageId", key.message_id);
}

MessageKey read_key(const ObjectReader& fields) {
  Source source = fields.require_as<Source>("source");
  return {std::move(source), fields.require_as<MessageId>("messageId")};
}

void write_hash(JsonWriter& writer, const std::optional<ContentHash>& hash) {
  if (hash) writer.field("hash", hash->algorithm() + ':' + hash->digest_hex());
}

std::size_t json_size(const Message& message, ListPayloads payloads) noexcept {
  constexpr std::size_t kHeaderBytes = 2;  // a colon and a comma
  std::size_t bytes = quoted_size(message.key.source.str()) +
                      quoted_size(message.key.message_id.str()) + quoted_size(message.topic.str());
  if (message.partition_key) bytes += quoted_size(message.partition_key->str());
  if (payloads == ListPayloads::include) bytes += payload_size(message.payload);
  for (const auto& [name, value] : message.headers) {
    bytes += kHeaderBytes + quoted_size(name) + quoted_size(value);
  }
  return bytes;
}

std::size_t json_size(const MessageHistory& history) noexcept {
  return history.last_error ? quoted_size(*history.last_error) : 0;
}

void write_message_fields(JsonWriter& writer, const Message& message, ListPayloads payloads) {
  write_key(writer, message.key);
  writer.field("topic", message.topic);
  if (payloads == ListPayloads::include) write_payload(writer, message.payload, message.headers);
  if (!message.headers.empty()) {
    writer.key("headers").begin_object();
    for (const auto& [name, value] : message.headers) writer.escaped_key(name).value(value);
    writer.end_object();
  }
  write_hash(writer, message.hash);
  writer.field("priority", message.priority.value())
      .field("partitionKey", message.partition_key)
      .field("dueAt", message.due_at)
      .field("expiresAt", message.expires_at);
}

Message read_message_fields(const ObjectReader& fields, Direction direction,
                            const MessageDefaults* defaults, std::size_t place_in_batch) {
  MessageKey key = read_key(fields, defaults, place_in_batch);
  Topic topic = fields.require_as<Topic>("topic");
  Headers headers = read_headers(fields, direction);
  if (direction == Direction::request) require_payload(fields);
  Payload payload = read_payload(fields, headers);
  if (defaults != nullptr) add_default_headers(headers, defaults->headers, fields.place());
  Priority priority;
  if (const std::optional<JsonValue> value = fields.find("priority")) {
    priority = Priority(static_cast<int>(value->integer(Priority::kMin, Priority::kMax)));
  }
  return {.key = std::move(key),
          .topic = std::move(topic),
          .payload = std::move(payload),
          .headers = std::move(headers),
          .hash = fields.get<ContentHash>("hash"),
          .priority = priority,
          .partition_key = fields.get<PartitionKey>("partitionKey"),
          .due_at = fields.get<TimePoint>("dueAt"),
          .expires_at = fields.get<TimePoint>("expiresAt")};
}

void write_history(JsonWriter& writer, const MessageHistory& history) {
  writer.field("attempt", history.attempt)
      .field("deliveries", history.deliveries)
      .field("lapses", history.lapses)
      .field("duplicates", history.duplicates)
      .field("contentVersion", history.content_version)
      .field("firstSeen", history.first_seen_at)
      .field("lastSeen", history.last_seen_at)
      .field("lastError", history.last_error);
}

MessageHistory read_history(const ObjectReader& fields) {
  return {.attempt = fields.require_as<int>("attempt"),
          .deliveries = fields.require_as<int>("deliveries"),
          .lapses = fields.require_as<int>("lapses"),
          .duplicates = fields.require_as<int>("duplicates"),
          .content_version = fields.require_as<int>("contentVersion"),
          .first_seen_at = fields.require_as<TimePoint>("firstSeen"),
          .last_seen_at = fields.require_as<TimePoint>("lastSeen"),
          .last_error = fields.get<std::string>("lastError")};
}

void write_record(JsonWriter& writer, const MessageRecord& record, ListPayloads payloads) {
  writer.begin_object();
  if (record.message) {
    write_message_fields(writer, *record.message, payloads);
  } else {
    write_key(writer, record.key);
    write_hash(writer, record.hash);
  }
  writer.field("status", word_of(record.status)).field("state", word_of(record.state));
  if (record.waiting_for) writer.field("waitingFor", word_of(*record.waiting_for));
  write_history(writer, record.history);
  if (record.lease) {
    writer.field("worker", record.lease->worker)
        .field("owner", record.lease->owner)
        .field("delivery", static_cast<std::uint64_t>(record.lease->delivery))
        .field("leasedAt", record.lease->leased_at)
        .field("lockedUntil", record.lease->locked_until);
  }
  writer.field("eligibleAt", record.eligible_at).field("finishedAt", record.finished_at);
  if (record.revivals != Revivals{}) {
    writer.key("revivals")
        .begin_object()
        .field("count", record.revivals.count)
        .field("lastAt", record.revivals.last_at)
        .field("lastReason", record.revivals.last_reason)
        .end_object();
  }
  if (!record.attempts.empty()) {
    writer.key("attempts").begin_array();
    for (const Attempt& attempt : record.attempts) write_attempt(writer, attempt);
    writer.end_array();
  }
  writer.end_object();
}

MessageRecord read_record(const JsonValue& value) {
  const ObjectReader fields(value, kRecordFields, Direction::answer);
  std::optional<Message> message;
  if (fields.find("topic")) message = read_message_fields(fields, Direction::answer, nullptr, 0);
  return {.key = read_key(fields),
          .status = read_word<Status>(fields.require("status")),
          .state = read_word<State>(fields.require("state")),
          .waiting_for = read_waiting_for(fields),
          .message = std::move(message),
          .hash = fields.get<ContentHash>("hash"),
          .history = read_history(fields),
          .lease = read_lease(fields),
          .eligible_at = fields.get<TimePoint>("eligibleAt"),
          .finished_at = fields.get<TimePoint>("finishedAt"),
          .revivals = read_revivals(fields),
          .attempts = read_attempts(fields)};
}

Message read_message(std::string_view json, const MessageDefaults& defaults) {
  return read_json(json, Direction::request,
                   [&](const JsonValue& value) { return read_message(value, defaults, 0); });
}

std::vector<Message> read_messages(std::string_view json, const MessageDefaults& defaults) {
  std::vector<Message> messages;
  read_messages(json, defaults, [&](Message message) { messages.push_back(std::move(message)); });
  return messages;
}

void read_messages(std::string_view json, const MessageDefaults& defaults,
                   const std::function<void(Message)>& take) {
  std::size_t place = 0;
  read_json(json, Direction::request, [&](const JsonValue& array) {
    array.for_each_item(limits::kMaxBatchItems, [&](const JsonValue& item) {
      take(read_message(item, defaults, place++));
    });
  });
}

std::size_t json_size(const MessageRecord& record, ListPayloads payloads) noexcept {
  std::size_t bytes = kRecordBytes + json_size(record.history);
  if (record.message) {
    bytes += json_size(*record.message, payloads);
  } else {
    bytes += quoted_size(record.key.source.str()) + quoted_size(record.key.message_id.str());
  }
  if (record.revivals.last_reason) bytes += quoted_size(*record.revivals.last_reason);
  for (const Attempt& attempt : record.attempts) {
    bytes += kAttemptBytes + quoted_size(attempt.error) + quoted_size(attempt.error_kind);
  }
  return bytes;
}

std::size_t json_size(const MessagePage& page, ListPayloads payloads) noexcept {
  std::size_t bytes = kRecordBytes;
  for (const MessageRecord& record : page.records) bytes += json_size(record, payloads);
  return bytes;
}

std::string write_message(const Message& message) {
  JsonWriter writer(kRecordBytes + json_size(message, ListPayloads::include));
  writer.begin_object();
  write_message_fields(writer, message);
  return std::move(writer.end_object()).take();
}

std::string write_messages(std::span<const Message> messages) {
  JsonWriter writer(messages.size() * kRecordBytes);
  writer.begin_array();
  for (const Message& message : messages) {
    writer.begin_object();
    write_message_fields(writer, message);
    writer.end_object();
  }
  return std::move(writer.end_array()).take();
}

std::string write_record(const MessageRecord& record, ListPayloads payloads) {
  JsonWriter writer(json_size(record, payloads));
  write_record(writer, record, payloads);
  return std::move(writer).take();
}

MessageRecord read_record(std::string_view json) {
  return read_json(json, Direction::answer,
                   [](const JsonValue& value) { return read_record(value); });
}

std::string write_page(const MessagePage& page, ListPayloads payloads) {
  JsonWriter writer(json_size(page, payloads));
  writer.begin_object().key("messages").begin_array();
  for (const MessageRecord& record : page.records) write_record(writer, record, payloads);
  writer.end_array();
  if (page.next) writer.field("next", page.next->str());
  return std::move(writer.end_object()).take();
}

MessagePage read_page(std::string_view json) {
  return read_object(json, kPageFields, Direction::answer, [](const ObjectReader& fields) {
    MessagePage page;
    fields.require("messages").for_each_item(limits::kMaxListItems, [&](const JsonValue& item) {
      page.records.push_back(read_record(item));
    });
    if (std::optional<std::string> next = fields.get<std::string>("next")) {
      page.next = Cursor(std::move(*next));
    }
    return page;
  });
}

}  // namespace oncebox::wire
