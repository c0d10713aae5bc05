#include "oncebox/wire/edit_json.hpp"

#include <utility>

#include "batch_json.hpp"
#include "message_fields.hpp"
#include "payload_json.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 3> kEditFields = {"items", "delaySeconds", "reason"};
constexpr std::array<std::string_view, 2> kPayloadFields = {"payload", "payloadBase64"};
constexpr auto kEditedFields = joined(kKeyFields, kPayloadFields);
constexpr auto kPastFields =
    joined(kPayloadFields, std::array<std::string_view, 5>{"contentVersion", "hash", "replacedAt",
                                                           "replacedBy", "reason"});
constexpr std::array<std::string_view, 1> kContentsField = {"contents"};

// Headers are not part of it, so the payload says by itself what it is.
Payload read_bare_payload(const ObjectReader& fields) {
  Headers none;
  return read_payload(fields, none);
}

EditedMessage read_edited(const JsonValue& value) {
  const ObjectReader fields(value, kEditedFields, Direction::request);
  require_payload(fields);
  return {.key = read_key(fields), .payload = read_bare_payload(fields)};
}

PastContent read_past_content(const JsonValue& value) {
  const ObjectReader fields(value, kPastFields, Direction::answer);
  return {.content_version = fields.require_as<int>("contentVersion"),
          .payload = read_bare_payload(fields),
          .hash = fields.get<ContentHash>("hash"),
          .replaced_at = fields.require_as<TimePoint>("replacedAt"),
          .replaced_by = fields.get_or("replacedBy", std::string()),
          .reason = fields.get_or("reason", std::string())};
}

}  // namespace

EditCall read_edit(std::string_view json) {
  return read_object(json, kEditFields, Direction::request, [](const ObjectReader& fields) {
    EditCall call{.edits = read_array<EditedMessage>(fields.require("items"), read_edited)};
    call.options.delay = fields.get_or("delaySeconds", call.options.delay);
    call.options.reason = fields.get_or("reason", call.options.reason);
    return call;
  });
}

std::string write_edit(std::span<const EditedMessage> edits, const ReviveOptions& options) {
  JsonWriter writer;
  writer.begin_object().key("items").begin_array();
  for (const EditedMessage& edit : edits) {
    writer.begin_object();
    write_key(writer, edit.key);
    write_payload(writer, edit.payload, Headers());
    writer.end_object();
  }
  writer.end_array();
  if (options.delay > Duration{0}) writer.field("delaySeconds", options.delay);
  if (!options.reason.empty()) {
    writer.field("reason", clip_text(options.reason, limits::kMaxReasonBytes));
  }
  return std::move(writer.end_object()).take();
}

std::size_t json_size(std::span<const PastContent> contents) noexcept {
  constexpr std::size_t kContentBytes = 256;
  std::size_t bytes = kContentBytes;
  for (const PastContent& past : contents) {
    bytes += kContentBytes + payload_size(past.payload) + quoted_size(past.replaced_by) +
             quoted_size(past.reason);
  }
  return bytes;
}

std::string write_past_contents(std::span<const PastContent> contents) {
  const auto write = [](JsonWriter& writer, const PastContent& past) {
    writer.begin_object().field("contentVersion", past.content_version);
    write_payload(writer, past.payload, Headers());
    write_hash(writer, past.hash);
    writer.field("replacedAt", past.replaced_at);
    if (!past.replaced_by.empty()) writer.field("replacedBy", past.replaced_by);
    if (!past.reason.empty()) writer.field("reason", past.reason);
    writer.end_object();
  };
  return write_batch("contents", contents, json_size(contents), write);
}

std::vector<PastContent> read_past_contents(std::string_view json) {
  return read_object(json, kContentsField, Direction::answer, [](const ObjectReader& fields) {
    return read_array<PastContent>(fields.require("contents"), read_past_content);
  });
}

}  // namespace oncebox::wire
