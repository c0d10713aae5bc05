#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/message.hpp"
#include "oncebox/queue_operator.hpp"

/// Messages as JSON, as the HTTP service and the command-line tool speak it: names in camelCase,
/// times in RFC 3339 UTC, durations in seconds, enums as PascalCase words.
///
/// **Payloads** come back as they were sent. `payload` is any JSON value: a string stands for its
/// own text, any other value for exactly the bytes with which it was written, and then the header
/// contentType is set to application/json unless the sender gave a JSON type (one that is not JSON
/// is an error). `payloadBase64` is for bytes that are no text; where they happen to be text,
/// contentType is set to application/octet-stream unless the sender gave a type. Written messages
/// follow the same rules backwards, so that reading what was written gives the same bytes and
/// headers, always.
///
/// A request must have one of the two; no bytes are the empty string, and the JSON value null is
/// sent as the string "null". A field that is null counts as left out.
///
/// Reading throws `invalid_argument` for text that is not JSON, is nested too deeply, or has the
/// wrong type somewhere, and for limits as the types do; the error says where ("[3].topic: …") and
/// never quotes a value. In a request a field that is not known is an error, named together with
/// the nearest known one, and so is one that is there twice; in an answer both are ignored.
/// Requests are nested at most 32 levels, payload included; answers 64, so that all that was
/// accepted can be read back.
namespace oncebox::wire {

/// What a sender may leave out.
struct MessageDefaults {
  Source source = "http";
  /// Names the message at this place of the batch when it has no messageId.
  std::function<MessageId(std::size_t place)> make_id;
  /// Told of the message at this place of the batch when it has no source.
  std::function<void(std::size_t place)> on_default_source = {};
  /// Set where the message has no header of that name.
  Headers headers = {};
  std::string request_id = {};  ///< see `Message::request_id`
};

[[nodiscard]] Message read_message(std::string_view json, const MessageDefaults& defaults);
/// A JSON array; at most `limits::kMaxBatchItems`.
[[nodiscard]] std::vector<Message> read_messages(std::string_view json,
                                                 const MessageDefaults& defaults);
/// Calls `take` with one message after the other, as soon as it is read.
void read_messages(std::string_view json, const MessageDefaults& defaults,
                   const std::function<void(Message)>& take);

[[nodiscard]] std::string write_message(const Message& message);
[[nodiscard]] std::string write_messages(std::span<const Message> messages);

/// One message with its state and history. Without payload when `payloads` says so.
[[nodiscard]] std::string write_record(const MessageRecord& record,
                                       ListPayloads payloads = ListPayloads::include);
[[nodiscard]] MessageRecord read_record(std::string_view json);

[[nodiscard]] std::string write_page(const MessagePage& page,
                                     ListPayloads payloads = ListPayloads::omit);
[[nodiscard]] MessagePage read_page(std::string_view json);

/// About how many bytes are written for these, and seldom fewer: to be asked before. A control
/// character of a payload takes six bytes.
[[nodiscard]] std::size_t json_size(const MessageRecord& record, ListPayloads payloads) noexcept;
[[nodiscard]] std::size_t json_size(const MessagePage& page, ListPayloads payloads) noexcept;

}  // namespace oncebox::wire
