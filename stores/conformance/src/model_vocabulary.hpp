#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "oncebox/content_hash.hpp"
#include "oncebox/headers.hpp"
#include "oncebox/message.hpp"
#include "oncebox/topic_pattern.hpp"

/// The few values that the random operations are made of. Few, so that they meet often. An
/// operation names each by its place here; the first of each is the plainest, because shrinking
/// goes there.
namespace oncebox::conformance::vocabulary {

/// Two sources with the same ids, so that the pair must be told apart.
inline constexpr std::size_t kKeys = 10;
inline constexpr std::size_t kTopics = 3;
inline constexpr std::size_t kPayloads = 4;
inline constexpr std::size_t kHeaders = 3;
inline constexpr std::size_t kPriorities = 3;
inline constexpr std::size_t kPartitions = 3;
inline constexpr std::size_t kOwners = 3;
inline constexpr std::size_t kErrors = 5;
inline constexpr std::size_t kReasons = 3;
inline constexpr std::size_t kTopicSelections = 5;
inline constexpr std::size_t kTopicPatterns = 4;
inline constexpr std::size_t kIdempotencyKeys = 4;

enum class HashChoice {
  none,
  of_payload,             ///< the right sha256
  wrong,                  ///< sha256 of something else
  other_algorithm,        ///< not comparable with the two above
  other_algorithm_wrong,  ///< comparable with the last, and different
};
inline constexpr std::size_t kHashChoices = 5;

[[nodiscard]] MessageKey key(std::size_t place);
[[nodiscard]] Topic topic(std::size_t place);
[[nodiscard]] Payload payload(std::size_t place);
[[nodiscard]] Headers headers(std::size_t place);
[[nodiscard]] std::optional<ContentHash> hash(HashChoice choice, std::size_t payload_place);
[[nodiscard]] Priority priority(std::size_t place);
/// The first is none.
[[nodiscard]] std::optional<PartitionKey> partition(std::size_t place);
[[nodiscard]] OwnerToken owner(std::size_t place);
/// The name of the worker to which the owner of this place belongs.
[[nodiscard]] WorkerName worker(std::size_t place);
/// The first is empty; the last has to be cut and cleaned.
[[nodiscard]] std::string error(std::size_t place);
/// Of the error at this place; the first is empty.
[[nodiscard]] std::string error_kind(std::size_t place);
[[nodiscard]] std::string reason(std::size_t place);
[[nodiscard]] TopicSelection topic_selection(std::size_t place);
[[nodiscard]] TopicPattern topic_pattern(std::size_t place);
/// Two of them differ only by blanks, one has the characters that a URL would change.
[[nodiscard]] IdempotencyKey idempotency_key(std::size_t place);

}  // namespace oncebox::conformance::vocabulary
