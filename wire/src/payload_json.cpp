#include "payload_json.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "oncebox/internal/http_text.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::wire {

namespace {

using detail::bare_media_type;
using detail::equal_ignoring_case;

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kBytesType = "application/octet-stream";

bool is_json_type(std::string_view content_type) {
  constexpr std::string_view kSuffix = "+json";
  const std::string_view type = bare_media_type(content_type);
  if (equal_ignoring_case(type, kJsonType)) return true;
  return type.size() > kSuffix.size() &&
         equal_ignoring_case(type.substr(type.size() - kSuffix.size()), kSuffix);
}

// A string would be read as its own text, white space around a value would be lost, and null is not
// a payload.
bool can_stand_as_json(std::string_view bytes) {
  return !bytes.empty() && bytes.front() != '"' && bytes != "null" &&
         !is_json_space(bytes.front()) && !is_json_space(bytes.back()) &&
         is_json(bytes, kMaxPayloadNesting);
}

}  // namespace

void write_payload(JsonWriter& writer, const Payload& payload, const Headers& headers) {
  const std::string& bytes = payload.bytes();
  const std::string_view type = headers.content_type().value_or(std::string_view());
  if (is_json_type(type) && can_stand_as_json(bytes)) {
    writer.key("payload").raw(bytes);
  } else if (!equal_ignoring_case(bare_media_type(type), kBytesType) && is_utf8(bytes)) {
    writer.field("payload", bytes);
  } else {
    writer.field("payloadBase64", to_base64(bytes));
  }
}

std::size_t payload_size(const Payload& payload) noexcept {
  const std::string& bytes = payload.bytes();
  const std::size_t as_base64 = base64_size(bytes.size()) + 2;
  return std::max(as_base64, quoted_size(bytes));
}

void require_payload(const ObjectReader& fields) {
  if (fields.find("payload") || fields.find("payloadBase64")) return;
  Place(fields.place(), "payload")
      .fail("this is missing or null; for no bytes send \"\", for the JSON value null \"null\"");
}

Payload read_payload(const ObjectReader& fields, Headers& headers) {
  const std::optional<JsonValue> value = fields.find("payload");
  const std::optional<JsonValue> base64 = fields.find("payloadBase64");
  if (value && base64) base64->place().fail("there is a payload already; send one of the two");

  if (base64) {
    std::optional<std::string> bytes = from_base64(base64->text());
    if (!bytes) base64->place().fail("this is not base64 (standard alphabet, with padding)");
    if (!headers.content_type() && is_utf8(*bytes)) {
      reading_at(base64->place(),
                 [&] { return headers.set(header_names::kContentType, kBytesType).size(); });
    }
    return Payload(std::move(*bytes));
  }
  if (!value) return Payload();
  if (value->is_string()) return Payload(value->text());

  const std::optional<std::string_view> type = headers.content_type();
  if (type && !is_json_type(*type)) {
    value->place().fail(
        "a JSON value does not go with a contentType that is not JSON; send it as a string or as "
        "payloadBase64");
  }
  if (!type) {
    reading_at(value->place(),
               [&] { return headers.set(header_names::kContentType, kJsonType).size(); });
  }
  return Payload(value->json());
}

}  // namespace oncebox::wire
