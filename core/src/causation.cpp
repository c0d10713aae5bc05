#include "oncebox/causation.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "oncebox/content_hash.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox {

namespace {

constexpr std::array kOfOneMessage = {
    header_names::kMessageId,    header_names::kCausationId, header_names::kIdempotencyKey,
    header_names::kPartitionKey, header_names::kTimestamp,   header_names::kQuarantinedFrom};

void set_unless_there(Headers& headers, std::string_view name, std::string_view value) {
  if (!headers.get(name)) headers.set(name, value);
}

/// Takes out what `own` can only have by copying all headers of the cause: kept, they would say of
/// two messages that they are one.
void remove_what_was_copied(Headers& own, const Cause& cause) {
  if (const auto id = own.message_id();
      id && (*id == cause.id() || id == cause.headers()->message_id())) {
    own.erase(header_names::kMessageId);
  }
  // Without an id of the cause, its own cause is the nearest one that is known.
  if (own.causation_id() && !cause.id().empty() &&
      own.causation_id() == cause.headers()->causation_id()) {
    own.erase(header_names::kCausationId);
  }
}

/// A UUID of version 8 (RFC 9562) out of the text's SHA-256.
MessageId id_of(std::string_view text) {
  const std::string digest = sha256(text);
  Uuid::Bytes bytes{};
  std::copy_n(digest.begin(), bytes.size(), bytes.begin());
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0F) | 0x80);  // the version
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3F) | 0x80);  // the variant
  return MessageId(Uuid(bytes).to_string());
}

}  // namespace

Headers caused_by(const Cause& cause, Headers own) {
  if (cause.headers() == nullptr) return own;
  const Headers& headers = *cause.headers();
  remove_what_was_copied(own, cause);
  const std::string_view correlation = headers.correlation_id().value_or(cause.id());
  if (!correlation.empty()) set_unless_there(own, header_names::kCorrelationId, correlation);
  if (!cause.id().empty()) set_unless_there(own, header_names::kCausationId, cause.id());
  const std::optional<std::string_view> trace = headers.traceparent();
  // The state belongs to this parent: a sender with a trace of its own must not get it.
  if (trace && !own.traceparent()) {
    own.set(header_names::kTraceparent, *trace);
    if (const auto state = headers.get(header_names::kTracestate)) {
      set_unless_there(own, header_names::kTracestate, *state);
    }
  }
  return own;
}

Headers forwarded(Headers headers) noexcept {
  for (const std::string_view name : kOfOneMessage) headers.erase(name);
  return headers;
}

// No source, id or key contains a NUL, and no source is empty, so different causes and names are
// never the same text.

MessageId derived_id(const MessageKey& cause, std::string_view name) {
  std::string text = cause.source.str();
  text += '\0';
  text += cause.message_id.str();
  text += '\0';
  text += name;
  return id_of(text);
}

MessageId derived_id(const IdempotencyKey& key, std::string_view name) {
  std::string text(1, '\0');
  text += key.str();
  text += '\0';
  text += name;
  return id_of(text);
}

}  // namespace oncebox
