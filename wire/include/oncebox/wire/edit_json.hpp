#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/queue_operator.hpp"

/// The bodies of revivals with another payload, and of what they replaced. Rules as in
/// message_json.hpp; payloads stand by themselves here, so text is a string, whatever it means.
namespace oncebox::wire {

/// `{"items": [{"source": …, "messageId": …, "payload": …}], "delaySeconds": 0, "reason": …}`, with
/// `payloadBase64` for bytes that are no text. Who asks is not said: the service knows.
struct EditCall {
  std::vector<EditedMessage> edits;
  ReviveOptions options = {};
};

[[nodiscard]] EditCall read_edit(std::string_view json);
[[nodiscard]] std::string write_edit(std::span<const EditedMessage> edits,
                                     const ReviveOptions& options);

/// `{"contents": [{"contentVersion": 1, "payload": …, "hash": …, "replacedAt": …, "replacedBy": …,
/// "reason": …}]}`
[[nodiscard]] std::string write_past_contents(std::span<const PastContent> contents);
[[nodiscard]] std::vector<PastContent> read_past_contents(std::string_view json);
/// As that of a record.
[[nodiscard]] std::size_t json_size(std::span<const PastContent> contents) noexcept;

}  // namespace oncebox::wire
