#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace oncebox {

namespace detail {
/// Throws `invalid_argument`, naming `what`, unless `text` is valid UTF-8 of 1 to `max_code_points`
/// code points without NUL.
void require_name(std::string_view text, std::string_view what, std::size_t max_code_points);
}  // namespace detail

/// A piece of text that was checked once, when it was made, and is valid ever after: UTF-8, no NUL,
/// not empty, at most `Tag::kMaxCodePoints` code points. Longer text is rejected, never cut. Names
/// are case-sensitive and compared byte by byte.
///
/// The constructors are implicit on purpose, so that `.topic = "payment.received"` reads well; they
/// throw `invalid_argument`.
template <class Tag>
class Name {
 public:
  Name(std::string text) : text_(std::move(text)) {
    detail::require_name(text_, Tag::kWhat, Tag::kMaxCodePoints);
  }
  Name(std::string_view text) : Name(std::string(text)) {}
  Name(const char* text) : Name(std::string(text)) {}

  [[nodiscard]] const std::string& str() const noexcept { return text_; }

  friend auto operator<=>(const Name&, const Name&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Name& name) { return out << name.text_; }

 private:
  std::string text_;
};

inline constexpr std::size_t kMaxNameCodePoints = 255;
inline constexpr std::size_t kMaxIdempotencyKeyCodePoints = 1024;
inline constexpr std::size_t kMaxWorkerNameCodePoints = 100;

struct SourceTag {
  static constexpr std::string_view kWhat = "source";
  static constexpr std::size_t kMaxCodePoints = kMaxNameCodePoints;
};
struct MessageIdTag {
  static constexpr std::string_view kWhat = "message id";
  static constexpr std::size_t kMaxCodePoints = kMaxNameCodePoints;
};
struct TopicTag {
  static constexpr std::string_view kWhat = "topic";
  static constexpr std::size_t kMaxCodePoints = kMaxNameCodePoints;
};
struct PartitionKeyTag {
  static constexpr std::string_view kWhat = "partition key";
  static constexpr std::size_t kMaxCodePoints = kMaxNameCodePoints;
};
struct IdempotencyKeyTag {
  static constexpr std::string_view kWhat = "idempotency key";
  static constexpr std::size_t kMaxCodePoints = kMaxIdempotencyKeyCodePoints;
};
struct WorkerNameTag {
  static constexpr std::string_view kWhat = "worker's name";
  static constexpr std::size_t kMaxCodePoints = kMaxWorkerNameCodePoints;
};

/// The system that a message comes from, for example "stripe".
using Source = Name<SourceTag>;
/// The id that the source gave the message.
using MessageId = Name<MessageIdTag>;
/// What a message is about; chooses its handler.
using Topic = Name<TopicTag>;
/// Messages with the same partition key are handled strictly in the order in which they came.
using PartitionKey = Name<PartitionKeyTag>;
/// The key of one operation that must take effect once.
using IdempotencyKey = Name<IdempotencyKeyTag>;
/// Who works, in words for people: "shop-3:8124". Several claims, and several owners, share one.
using WorkerName = Name<WorkerNameTag>;

/// What identifies a message: the pair, everywhere. Two sources may use the same id.
struct MessageKey {
  Source source;
  MessageId message_id;

  friend auto operator<=>(const MessageKey&, const MessageKey&) = default;
  friend std::ostream& operator<<(std::ostream& out, const MessageKey& key) {
    return out << key.source << '/' << key.message_id;
  }
};

}  // namespace oncebox

template <class Tag>
struct std::hash<oncebox::Name<Tag>> {
  [[nodiscard]] std::size_t operator()(const oncebox::Name<Tag>& name) const noexcept {
    return std::hash<std::string>{}(name.str());
  }
};

template <>
struct std::hash<oncebox::MessageKey> {
  [[nodiscard]] std::size_t operator()(const oncebox::MessageKey& key) const noexcept {
    constexpr std::size_t kGoldenRatio =
        0x9e3779b97f4a7c15;  // spreads the first hash over all bits
    const std::size_t source = std::hash<oncebox::Source>{}(key.source);
    return std::hash<oncebox::MessageId>{}(key.message_id) ^ (source * kGoldenRatio);
  }
};
