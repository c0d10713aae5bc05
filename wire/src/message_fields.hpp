#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "json_reader.hpp"
#include "json_writer.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/wire/message_json.hpp"

/// The members that messages, records and claimed messages share, all on one level.
namespace oncebox::wire {

inline constexpr std::array<std::string_view, 2> kKeyFields = {"source", "messageId"};

inline constexpr std::array<std::string_view, 9> kContentFields = {
    "topic",    "payload",      "payloadBase64", "headers",   "hash",
    "priority", "partitionKey", "dueAt",         "expiresAt",
};

inline constexpr auto kMessageFields = joined(kKeyFields, kContentFields);

inline constexpr std::array<std::string_view, 8> kHistoryFields = {
    "attempt",        "deliveries", "lapses",   "duplicates",
    "contentVersion", "firstSeen",  "lastSeen", "lastError",
};

void write_key(JsonWriter& writer, const MessageKey& key);
[[nodiscard]] MessageKey read_key(const ObjectReader& fields);

/// All of `kMessageFields` that have a value.
void write_message_fields(JsonWriter& writer, const Message& message,
                          ListPayloads payloads = ListPayloads::include);
/// Without defaults the key must be there. `place_in_batch` is for `MessageDefaults::make_id`.
[[nodiscard]] Message read_message_fields(const ObjectReader& fields, Direction direction,
                                          const MessageDefaults* defaults,
                                          std::size_t place_in_batch);

void write_history(JsonWriter& writer, const MessageHistory& history);
[[nodiscard]] MessageHistory read_history(const ObjectReader& fields);

void write_record(JsonWriter& writer, const MessageRecord& record, ListPayloads payloads);
[[nodiscard]] MessageRecord read_record(const JsonValue& value);

/// About as many bytes as the members of a message take, and of its history: seldom fewer.
[[nodiscard]] std::size_t json_size(const Message& message, ListPayloads payloads) noexcept;
[[nodiscard]] std::size_t json_size(const MessageHistory& history) noexcept;

void write_hash(JsonWriter& writer, const std::optional<ContentHash>& hash);

}  // namespace oncebox::wire
