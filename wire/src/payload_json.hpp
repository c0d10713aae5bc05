#pragma once

#include "json_reader.hpp"
#include "json_writer.hpp"
#include "oncebox/headers.hpp"
#include "oncebox/payload.hpp"

/// How the bytes of a payload lie in JSON: `payload` or `payloadBase64`, see message_json.hpp.
namespace oncebox::wire {

void write_payload(JsonWriter& writer, const Payload& payload, const Headers& headers);

/// As many bytes as that writes at most, but for the name.
[[nodiscard]] std::size_t payload_size(const Payload& payload) noexcept;

/// Throws `invalid_argument` when there is neither of them: an empty payload is said, so that
/// nobody sends or edits one by a slip.
void require_payload(const ObjectReader& fields);

/// No bytes when there is neither. May set the header contentType, so that the bytes are written as
/// they were sent.
[[nodiscard]] Payload read_payload(const ObjectReader& fields, Headers& headers);

}  // namespace oncebox::wire
