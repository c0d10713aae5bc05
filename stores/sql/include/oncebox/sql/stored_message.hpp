#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "oncebox/driver/message_state.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox::sql {

/// What a sender gave, apart from what stands in the state.
struct Content {
  Topic topic;
  Payload payload;
  Headers headers;
};

/// As of the message (see `bytes_of(const Message&)`).
[[nodiscard]] inline std::size_t bytes_of(const Content& content) noexcept {
  return content.payload.size() + bytes_of(content.headers);
}

/// One message as the tables of a queue have it.
struct StoredMessage {
  std::int64_t id = 0;
  MessageKey key;
  MessageState state;
  std::optional<Content> content = {};          ///< absent: never enqueued
  PartitionPlace place = PartitionPlace::free;  ///< when it was read
};

/// The message with everything that is known of it. It must have content.
[[nodiscard]] Message to_message(const StoredMessage& stored);
/// `paused` are the patterns of the topics that are.
[[nodiscard]] ShownState shown_state(const StoredMessage& stored,
                                     std::span<const TopicPattern> paused, TimePoint now);
[[nodiscard]] bool matches(const MessageFilter& filter, const StoredMessage& stored,
                           std::span<const TopicPattern> paused, TimePoint now);
[[nodiscard]] MessageRecord to_record(const StoredMessage& stored,
                                      std::span<const TopicPattern> paused, TimePoint now);
/// Moves a leased message out.
[[nodiscard]] ClaimedMessage take_claimed(StoredMessage& stored);

/// Brings a dead message back as an operator asked: an expiry that has passed is dropped.
void revive(MessageState& state, const ReviveOptions& options, TimePoint now);

/// The same with another payload. Answers what the message had before; it must have content.
[[nodiscard]] PastContent revive_edited(StoredMessage& stored, const Payload& payload,
                                        const ReviveOptions& options, TimePoint now);

}  // namespace oncebox::sql
